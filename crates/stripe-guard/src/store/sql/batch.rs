//! Statements over many rows at once, in a few fixed sizes.

use super::dialect::{Arg, Dialect, Run, Statement};

/// The sizes a batch is cut into. Few, because each is a prepared statement of its own.
const SIZES: [usize; 4] = [64, 16, 4, 1];

/// A statement with a list of rows in it, prepared for each size.
pub(super) struct Batch {
    sizes: [Statement; SIZES.len()],
}

impl Batch {
    /// `head`, then `row` as often as needed with commas between, then `tail`.
    pub(super) fn new<D: Dialect>(head: &str, row: &str, tail: &str, qualifier: &str) -> Self {
        let sizes = SIZES.map(|size| {
            let rows = vec![row; size].join(", ");
            super::dialect::statement::<D>(&format!("{head} {rows} {tail}"), qualifier)
        });
        Self { sizes }
    }

    /// Runs over all items and gathers the rows that come back, in no promised order.
    ///
    /// `before` are the arguments in the statement's head, `after` those in its tail; `bind` adds
    /// those of one row.
    pub(super) async fn fetch<C: Run, T: Sync>(
        &self,
        connection: &mut C,
        items: &[T],
        before: &[Arg],
        after: &[Arg],
        bind: impl Fn(&T, &mut Vec<Arg>) + Send + Sync,
    ) -> sqlx::Result<Vec<C::Row>> {
        let mut answers = Vec::with_capacity(items.len());
        let mut rest = items;
        for (size, statement) in SIZES.iter().zip(&self.sizes) {
            while rest.len() >= *size {
                let (piece, later) = rest.split_at(*size);
                rest = later;
                let mut args = before.to_vec();
                for item in piece {
                    bind(item, &mut args);
                }
                args.extend_from_slice(after);
                answers.extend(connection.fetch(statement.clone(), args).await?);
            }
        }
        Ok(answers)
    }
}
