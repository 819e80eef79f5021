//! From one schema version to the next.

use super::Fault;
use super::dialect::{Cells, Dialect, Run, Statement, statement};
use super::schema::{BODIES, META, MIGRATIONS, VERSION};
use crate::store::StoreError;

/// Brings the schema up to this binary's version. The caller has opened a transaction that no
/// other start can have at the same time, and commits it.
///
/// Refuses a schema that this binary is too old for. A schema that is newer and says that it still
/// suits this binary is left as it is.
pub(in crate::store) async fn migrate<D: Dialect, C: Run>(
    connection: &mut C,
    qualifier: &str,
) -> Result<(), StoreError> {
    run::<D, C>(connection, qualifier).await.map_err(Fault::into_error::<D>)
}

/// Checks that the schema is one that this binary can work with, and changes nothing: a command
/// beside a running server must not change the tables under it.
pub(in crate::store) async fn check_schema<D: Dialect, C: Run>(
    connection: &mut C,
    qualifier: &str,
) -> Result<(), StoreError> {
    let none =
        |_| StoreError::Open("the database holds no inbox yet; start `stripe-guard serve` once to make it".to_owned());
    let (found, oldest) = versions::<D, C>(connection, qualifier).await.map_err(none)?;
    too_new(found, oldest)?;
    if found < VERSION {
        return Err(StoreError::Open(format!(
            "the database has schema version {found} and this stripe-guard needs {VERSION}; start `stripe-guard serve` of this release once, which brings it up to date"
        )));
    }
    Ok(())
}

async fn versions<D: Dialect, C: Run>(connection: &mut C, qualifier: &str) -> Result<(i64, i64), Fault> {
    let one = |text: &str| statement::<D>(text, qualifier);
    let found = version(connection, one("SELECT value FROM {p}meta WHERE name = 'schema_version'")).await?;
    let oldest = version(connection, one("SELECT value FROM {p}meta WHERE name = 'schema_suits_from'")).await?;
    Ok((found, oldest))
}

fn too_new(found: i64, oldest: i64) -> Result<(), StoreError> {
    if oldest <= VERSION {
        return Ok(());
    }
    Err(StoreError::Open(format!(
        "the database has schema version {found}, which needs a newer stripe-guard: this one knows version {VERSION}. \
         Install the release that wrote it, or restore a backup from before the upgrade"
    )))
}

async fn run<D: Dialect, C: Run>(connection: &mut C, qualifier: &str) -> Result<(), Fault> {
    let one = |text: &str| statement::<D>(text, qualifier);
    connection.fetch(one(META), Vec::new()).await?;
    let (found, oldest) = versions::<D, C>(connection, qualifier).await?;
    too_new(found, oldest).map_err(Fault::Ours)?;
    for (number, suits_from, statements) in MIGRATIONS.iter().filter(|(number, ..)| *number > found) {
        for text in
            statements.iter().flat_map(|text| if *text == BODIES { D::BODIES } else { std::slice::from_ref(text) })
        {
            connection.fetch(one(text), Vec::new()).await?;
        }
        let upsert =
            "INSERT INTO {p}meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        for (name, value) in [("schema_version", number), ("schema_suits_from", suits_from)] {
            connection.fetch(one(upsert), vec![name.into(), value.to_string().as_str().into()]).await?;
        }
    }
    Ok(())
}

async fn version<C: Run>(connection: &mut C, sql: Statement) -> Result<i64, Fault> {
    let rows = connection.fetch(sql, Vec::new()).await?;
    let Some(row) = rows.first() else { return Ok(0) };
    row.text(0)?.parse().map_err(|_| Fault::corrupt("meta", 0, "a schema version is no number"))
}
