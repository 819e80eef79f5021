//! The bodies that are sent: one file each, with what is true of it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;
use stripe_guard_core::{Digest, Form};

/// A body and its row of the index.
#[derive(Clone, Debug, Deserialize)]
pub struct Vector {
    /// The file.
    pub file: String,
    /// The form, by its word.
    form: String,
    /// The event's id; of the event inside, for an envelope.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The digest that the index gives, which is not computed from the file.
    pub sha256: String,
    /// The bytes.
    #[serde(skip)]
    pub body: Bytes,
}

impl Vector {
    pub fn form(&self) -> Form {
        match self.form.as_str() {
            "snapshot" => Form::Snapshot,
            "thin" => Form::Thin,
            "envelope" => Form::Envelope,
            other => panic!("{} has the unknown form {other}", self.file),
        }
    }
}

/// All of them, in the order of the index.
pub fn all() -> Vec<Vector> {
    let mut vectors: Vec<Vector> = serde_json::from_slice(&read("index.json")).unwrap();
    for vector in &mut vectors {
        vector.body = read(&vector.file).into();
        assert_eq!(Digest::of(&vector.body).to_string(), vector.sha256, "{} is not the file of the index", vector.file);
    }
    vectors
}

fn read(file: &str) -> Vec<u8> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors/events");
    std::fs::read(folder.join(file)).unwrap()
}
