//! House rules that a test can hold: layers, a pure core, SQL in the store alone, small files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What each module may import of this crate. Lower ones know nothing of higher ones.
const LAYERS: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("settings", &["store"]),
    ("wake", &[]),
    ("telemetry", &[]),
    ("store", &[]),
    ("registry", &["settings"]),
    ("slots", &[]),
    ("open", &["settings", "store"]),
    ("store_clock", &["clock", "store"]),
    ("failure", &["store", "telemetry"]),
    ("writer", &["failure", "store", "telemetry", "wake"]),
    ("deliver", &["clock", "registry", "settings", "store"]),
    ("settler", &["clock", "failure", "store", "telemetry", "wake"]),
    ("worker", &["clock", "deliver", "failure", "registry", "settings", "settler", "slots", "store", "telemetry"]),
    ("http", &["clock", "failure", "registry", "store", "telemetry", "writer"]),
    ("chores", &["clock", "failure", "http", "registry", "slots", "store", "store_clock", "telemetry"]),
    (
        "engine",
        &[
            "chores",
            "clock",
            "deliver",
            "failure",
            "http",
            "open",
            "registry",
            "settings",
            "settler",
            "slots",
            "store",
            "store_clock",
            "telemetry",
            "wake",
            "worker",
            "writer",
        ],
    ),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn rust_files(under: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().unwrap() != "target" {
                found.extend(rust_files(&path));
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
        }
    }
    found
}

#[test]
fn modules_import_only_what_lies_below_them() {
    let sources = root().join("crates/stripe-guard/src");
    for (path, text) in rust_files(&sources) {
        let inside = path.strip_prefix(&sources).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let allowed =
            LAYERS.iter().find(|(name, _)| *name == module).unwrap_or_else(|| panic!("{module} has no layer")).1;
        for used in text
            .split("crate::")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
        {
            assert!(used == module || allowed.contains(&used), "{}: {module} must not import {used}", inside.display());
        }
    }
}

#[test]
fn the_core_is_pure_and_the_sandbox_stands_on_it_alone() {
    let manifest = |name: &str| std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let core = manifest("stripe-guard-core");
    let (dependencies, _) = core.split_once("[dev-dependencies]").unwrap();
    for forbidden in ["tokio", "sqlx", "rand", "hyper", "reqwest", "stripe-guard."] {
        assert!(!dependencies.contains(&format!("\n{forbidden}")), "the core must not depend on {forbidden}");
    }
    for (path, text) in rust_files(&root().join("crates/stripe-guard-core/src")) {
        for forbidden in ["std::fs", "std::net", "SystemTime", "Instant", "async fn", "std::env"] {
            assert!(!text.contains(forbidden), "{} must not use {forbidden}", path.display());
        }
    }
    let sandbox = manifest("stripe-guard-sandbox");
    assert!(!sandbox.contains("stripe-guard.workspace") && !sandbox.contains("sqlx"));
}

#[test]
fn the_test_clusters_stand_on_nothing_and_ship_with_nothing() {
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).map(|rest| rest.split("\n[").next().unwrap());
        if folder.ends_with("stripe-guard-test-postgres") {
            assert!(dependencies.is_none() && manifest.contains("publish = false"));
        } else {
            assert!(!dependencies.unwrap().contains("stripe-guard-test-postgres"), "{}", folder.display());
        }
    }
}

#[test]
fn sql_stays_in_the_store() {
    for (path, text) in rust_files(&root().join("crates")) {
        let shown = path.display().to_string();
        // The test clusters are no part of what is shipped.
        let exempt = ["/store/", "/tests/", "/benches/", "/stripe-guard-test-postgres/"];
        if exempt.iter().any(|part| shown.contains(part)) {
            continue;
        }
        for word in ["SELECT ", "INSERT INTO", "DELETE FROM", "sqlx::query"] {
            assert!(!text.contains(word), "{shown} holds SQL: {word}");
        }
    }
}

#[test]
fn files_are_small() {
    for (path, text) in rust_files(&root().join("crates")) {
        let lines = text.lines().count();
        let limit = if path.to_str().unwrap().contains("/tests/") { 700 } else { 400 };
        assert!(lines <= limit, "{} has {lines} lines; does it still say one thing?", path.display());
    }
}
