//! Programs that do what each line of their input says.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};

pub(crate) struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("it has an input")?;
        let output = child.stdout.take().context("it has an output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Has it do what a line says; whether it has not refused that.
    pub(crate) fn ask(&mut self, line: &str) -> Result<bool> {
        writeln!(self.input, "{line}")?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        match answer.split(':').next() {
            Some("done\n") => Ok(true),
            Some("refused") => Ok(false),
            _ => bail!("it ended: {:?}", self.child.wait()?),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
