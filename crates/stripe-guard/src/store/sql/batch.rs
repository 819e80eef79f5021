//! Statements over many rows at once, in a few fixed sizes.

use super::dialect::{Arg, Dialect, Run, Statement};

/// The sizes a batch is cut into. Few, because each is a prepared statement of its own, and close
/// enough that few are run: each is a round trip to the database's thread or server.
const SIZES: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// A statement with a list of rows in it, prepared for each size.
pub(super) struct Batch {
    sizes: [Statement; SIZES.len()],
    /// Arguments of one row.
    width: usize,
}

impl Batch {
    /// `head`, then `row` as often as needed with commas between, then `tail`.
    pub(super) fn new<D: Dialect>(head: &str, row: &str, tail: &str, qualifier: &str) -> Self {
        let sizes = SIZES.map(|size| {
            let rows = vec![row; size].join(", ");
            super::dialect::statement::<D>(&format!("{head} {rows} {tail}"), qualifier)
        });
        Self { sizes, width: row.matches('?').count() }
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
        for (piece, statement) in self.pieces(items) {
            answers.extend(connection.fetch(statement.clone(), self.args(piece, before, after, &bind)).await?);
        }
        Ok(answers)
    }

    /// Runs over all items and says how many rows were changed.
    pub(super) async fn execute<C: Run, T: Sync>(
        &self,
        connection: &mut C,
        items: &[T],
        bind: impl Fn(&T, &mut Vec<Arg>) + Send + Sync,
    ) -> sqlx::Result<u64> {
        let mut changed = 0;
        for (piece, statement) in self.pieces(items) {
            changed += connection.change(statement.clone(), self.args(piece, &[], &[], &bind)).await?;
        }
        Ok(changed)
    }

    fn pieces<'s, T>(&'s self, items: &'s [T]) -> impl Iterator<Item = (&'s [T], &'s Statement)> {
        let mut rest = items;
        std::iter::from_fn(move || {
            let place = SIZES.iter().position(|size| *size <= rest.len())?;
            let (piece, later) = rest.split_at(SIZES[place]);
            rest = later;
            Some((piece, &self.sizes[place]))
        })
    }

    fn args<T>(&self, piece: &[T], before: &[Arg], after: &[Arg], bind: impl Fn(&T, &mut Vec<Arg>)) -> Vec<Arg> {
        let mut args = Vec::with_capacity(before.len() + piece.len() * self.width + after.len());
        args.extend_from_slice(before);
        for item in piece {
            bind(item, &mut args);
        }
        args.extend_from_slice(after);
        args
    }
}
