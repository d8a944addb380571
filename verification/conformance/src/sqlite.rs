//! SQLite: two writers use a database with a write-ahead log, whose index they map into memory.

use std::{fs, path::Path, process::Command, thread};

use anyhow::{Result, ensure};

use crate::output;

const WRITERS: u32 = 2;

/// Each writer inserts the numbers from 1 to `transactions`, one by one; returns a line of results.
pub(crate) fn run(directory: &Path, transactions: u32) -> Result<String> {
    let database = directory.join("database");
    let mode = ask(
        &database,
        "PRAGMA journal_mode = wal; CREATE TABLE t (writer, number);",
    )?;
    ensure!(mode == "wal", "no write-ahead log, but {mode}");
    thread::scope(|scope| {
        let writers = [1, 2].map(|writer| {
            let database = &database;
            scope.spawn(move || insert(database, writer, transactions))
        });
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().expect("a writer does not panic"))
    })?;
    let found = ask(
        &database,
        "PRAGMA integrity_check; \
         SELECT count(*), count(DISTINCT number), sum(number) FROM t; \
         PRAGMA wal_checkpoint(truncate); \
         PRAGMA integrity_check;",
    )?;
    let sum = WRITERS * (1..=transactions).sum::<u32>();
    let expected = format!(
        "ok\n{}|{transactions}|{sum}\n0|0|0\nok",
        WRITERS * transactions
    );
    ensure!(
        found == expected,
        "the database says\n{found}\nand not\n{expected}"
    );
    Ok(format!(
        "SQLite: {WRITERS} writers, {transactions} transactions each"
    ))
}

fn insert(database: &Path, writer: u32, transactions: u32) -> Result<()> {
    let script = database.with_extension(writer.to_string());
    let insert = |number| format!("INSERT INTO t VALUES ({writer}, {number});\n");
    fs::write(&script, (1..=transactions).map(insert).collect::<String>())?;
    ask(database, &format!(".read {}", script.display()))?;
    Ok(())
}

/// SQLite's output for `statements`. It waits while the database is locked.
fn ask(database: &Path, statements: &str) -> Result<String> {
    let mut sqlite = Command::new("sqlite3");
    sqlite.args(["-batch", "-bail", "-cmd", ".timeout 60000"]);
    let answer = output(sqlite.arg(database).arg(statements))?;
    Ok(answer.trim_end().to_owned())
}
