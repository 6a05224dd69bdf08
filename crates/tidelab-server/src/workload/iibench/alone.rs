//! The benchmark's writers alone, as fast as they can: on an engine without storage they reach the limit of
//! drivers and server.

use std::time::Duration;

use super::dsn::Dsn;
use super::queue::{Queries, Task, Writers};
use super::schema::Shape;

/// Inserts of one size into a table of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserts {
    /// The table.
    pub shape: Shape,
    /// Rows of a statement.
    pub rows: u32,
}

impl Inserts {
    /// Those of a task whose writers go as fast as they can; none: it has a rate, or no writers.
    pub fn of(task: &Task) -> Option<Inserts> {
        let writers = &task.writers;
        (writers.threads > 0 && writers.rows_per_second.is_none())
            .then_some(Inserts { shape: task.shape, rows: writers.rows_per_insert })
    }

    /// Carries them out for some seconds, in a new table of `engine`.
    pub fn task(self, dsn: Dsn, engine: &str, clients: u32, seconds: u32) -> Task {
        Task {
            name: format!("{self} on {engine}"),
            dsn,
            dialect: None,
            table: "inserts".to_string(),
            create: Some(format!("ENGINE={engine}")),
            shape: self.shape,
            writers: Writers {
                threads: clients,
                rows_per_insert: self.rows,
                max_rows: None,
                rows_per_second: None,
                delete: false,
            },
            queries: Queries { threads: 0, per_second: None, start_at_rows: 0, limit: 1 },
            duration: Some(Duration::from_secs(u64::from(seconds))),
            report_every: Duration::from_secs(u64::from(seconds)),
            log_file: "inserts.tsv".to_string(),
            seed: 1,
        }
    }
}

impl std::fmt::Display for Inserts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { secondary_indexes, char_fields, char_length, .. } = self.shape;
        let rows = self.rows;
        write!(
            f,
            "inserts of {rows} rows, {secondary_indexes} indexes, {char_fields} x {char_length} characters"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{parse, Changes};
    use super::*;

    const PUBLISHED: &str = include_str!("testdata/published-queue.toml");

    #[test]
    fn a_task_with_a_rate_says_nothing_of_what_drivers_reach() {
        let tasks = parse(PUBLISHED, &Changes::default()).unwrap();
        let rates: Vec<bool> = tasks.iter().map(|task| task.writers.rows_per_second.is_some()).collect();
        assert!(rates.contains(&true) && rates.contains(&false));
        for task in &tasks {
            let inserts = Inserts::of(task);
            assert_eq!(inserts.is_none(), task.writers.rows_per_second.is_some(), "{}", task.name);
            let Some(inserts) = inserts else { continue };
            let alone = inserts.task(task.dsn.clone(), "BLACKHOLE", 3, 2);
            assert_eq!(alone.engine_name(), Some("BLACKHOLE"));
            assert_eq!(Inserts::of(&alone), Some(inserts));
        }
    }
}
