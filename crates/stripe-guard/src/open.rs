//! Opening an inbox, whichever database it is in.

use crate::settings::Database;
use crate::store::{Opened, PostgresInbox, SqliteFile, StoreError, open_postgres, open_sqlite};

/// Opens an inbox as the settings say.
pub async fn open(database: &Database, exclusive: bool, create: bool) -> Result<Opened, StoreError> {
    match database {
        Database::Sqlite { path, table_prefix } => {
            open_sqlite(&SqliteFile { path: path.clone(), table_prefix: table_prefix.clone(), create, exclusive }).await
        }
        // Never for one process alone: any number share it.
        Database::Postgres { url, schema, pooler, require_replica, connections } => {
            open_postgres(&PostgresInbox {
                url: url.clone(),
                schema: schema.clone(),
                pooler: *pooler,
                require_replica: *require_replica,
                connections: *connections,
                create,
                partition_events: None,
            })
            .await
        }
    }
}
