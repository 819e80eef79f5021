//! Statements over many rows at once.

use super::dialect::{Arg, Dialect, Run, Statement};

/// The sizes a batch is cut into where each row is written out. Few, because each is a prepared
/// statement of its own, and close enough that few are run: each is a round trip to the
/// database's thread.
const SIZES: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// The most rows of one statement that takes its columns as arrays.
const ARRAY_ROWS_MAX: usize = 1024;

/// A statement with a list of rows in it.
pub(super) struct Batch {
    form: Form,
    /// Arguments of one row.
    width: usize,
}

enum Form {
    /// The rows are written out: a statement for each size.
    Written([Statement; SIZES.len()]),
    /// Each column is one argument, an array: one statement for any size.
    Arrays(Statement),
}

impl Batch {
    /// A statement in whose `text` `{rows}` stands for the rows. `row` is one of them, with a `?`
    /// for each argument; `types` says what those are, a letter for each: `i`, `t` or `b`.
    pub(super) fn new<D: Dialect>(text: &str, row: &str, types: &str, qualifier: &str) -> Self {
        let width = types.len();
        assert_eq!(row.matches('?').count(), width, "{row}: as many types as arguments");
        let render = |rows: &str| super::dialect::statement::<D>(&text.replace("{rows}", rows), qualifier);
        let form = match D::rows_from_arrays(row, types) {
            Some(rows) => Form::Arrays(render(&rows)),
            None => Form::Written(
                SIZES.map(|size| render(&format!("VALUES {}", vec![format!("({row})"); size].join(", ")))),
            ),
        };
        Self { form, width }
    }

    /// Runs over all items and gathers the rows that come back, in no promised order; `bind` adds
    /// the arguments of one row.
    pub(super) async fn fetch<C: Run, T: Sync>(
        &self,
        connection: &mut C,
        items: &[T],
        bind: impl Fn(&T, &mut Vec<Arg>) + Send + Sync,
    ) -> sqlx::Result<Vec<C::Row>> {
        let mut answers = Vec::with_capacity(items.len());
        for (piece, statement) in self.pieces(items) {
            answers.extend(connection.fetch(statement.clone(), self.args(piece, &bind)).await?);
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
            changed += connection.change(statement.clone(), self.args(piece, &bind)).await?;
        }
        Ok(changed)
    }

    fn pieces<'s, T>(&'s self, items: &'s [T]) -> impl Iterator<Item = (&'s [T], &'s Statement)> {
        let mut rest = items;
        std::iter::from_fn(move || {
            let (size, statement) = match &self.form {
                Form::Written(sizes) => {
                    let place = SIZES.iter().position(|size| *size <= rest.len())?;
                    (SIZES[place], &sizes[place])
                }
                Form::Arrays(statement) => (rest.len().min(ARRAY_ROWS_MAX), statement),
            };
            let (piece, later) = rest.split_at(size);
            rest = later;
            (size > 0).then_some((piece, statement))
        })
    }

    fn args<T>(&self, piece: &[T], bind: impl Fn(&T, &mut Vec<Arg>)) -> Vec<Arg> {
        let mut args = Vec::with_capacity(piece.len() * self.width);
        for item in piece {
            bind(item, &mut args);
        }
        match self.form {
            Form::Written(_) => args,
            Form::Arrays(_) => self.columns(args),
        }
    }

    /// Rows one after the other, turned into one array for each column.
    fn columns(&self, args: Vec<Arg>) -> Vec<Arg> {
        let rows = args.len() / self.width;
        let mut columns: Vec<Vec<Arg>> = (0..self.width).map(|_| Vec::with_capacity(rows)).collect();
        for (place, arg) in args.into_iter().enumerate() {
            columns[place % self.width].push(arg);
        }
        columns.into_iter().map(Arg::Array).collect()
    }
}
