//! Clients that insert rows one by one, and remember which of them the server acknowledged.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    thread::{Scope, ScopedJoinHandle},
};

use anyhow::{Context, Result, ensure};

use super::server::Server;
use crate::output;

const CLIENTS: u64 = 4;

/// The numbers that a client may use in a round.
const NUMBERS: u64 = 1_000_000;

/// A client asks for a checkpoint after so many rows.
const CHECKPOINT: u64 = 200;

/// What a row holds besides its number, by which it is recognised: a thousand characters.
const CONTENT: &str = "repeat(md5(number::text), 32)";

pub(super) fn make_table(server: &Server) -> Result<()> {
    let table = "CREATE TABLE rows (number bigint PRIMARY KEY, content text)";
    output(server.client()?.args(["-c", table]))?;
    Ok(())
}

/// A client that works, and the rows that were acknowledged to it.
pub(super) type Client<'scope> = ScopedJoinHandle<'scope, Result<Vec<u64>>>;

/// Starts clients, which insert rows until the server fails.
pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    server: &Server,
    round: u32,
) -> Result<Vec<Client<'scope>>> {
    (0..CLIENTS)
        .map(|client| {
            let first = (u64::from(round) * CLIENTS + client) * NUMBERS;
            let command = server.client()?;
            Ok(scope.spawn(move || insert(command, first)))
        })
        .collect()
}

pub(super) fn acknowledged(client: Client<'_>) -> Result<Vec<u64>> {
    client.join().expect("a client does not panic")
}

fn insert(mut command: Command, first: u64) -> Result<Vec<u64>> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // Its words about the end of its server are expected.
    let mut client = command.stderr(Stdio::null()).spawn()?;
    let mut statements = client.stdin.take().context("no input")?;
    let mut answers = BufReader::new(client.stdout.take().context("no output")?).lines();
    let mut acknowledged = Vec::new();
    for number in first..first + NUMBERS {
        let end = match (number + 1) % CHECKPOINT {
            0 => "CHECKPOINT;\n",
            _ => "",
        };
        let statement = format!(
            "INSERT INTO rows SELECT number, {CONTENT} FROM (SELECT {number}::bigint AS number) AS new \
             RETURNING number;\n{end}"
        );
        // It ends with its server.
        if statements.write_all(statement.as_bytes()).is_err() {
            break;
        }
        let Some(answer) = answers.next() else { break };
        ensure!(answer? == number.to_string(), "another row was inserted");
        acknowledged.push(number);
    }
    drop(statements);
    client.wait()?;
    Ok(acknowledged)
}

/// All rows of the database.
///
/// # Errors
/// One of them has other content than was inserted.
pub(super) fn rows(server: &Server) -> Result<BTreeSet<u64>> {
    let ask = |statement: String| output(server.client()?.args(["-c", &statement]));
    let wrong = ask(format!(
        "SELECT count(*) FROM rows WHERE content <> {CONTENT}"
    ))?;
    ensure!(wrong.trim() == "0", "{} rows are wrong", wrong.trim());
    // By the table, not by its index.
    let rows = ask("SET enable_indexonlyscan = off; SELECT number FROM rows".to_owned())?;
    rows.lines().map(|row| Ok(row.parse()?)).collect()
}
