//! Progress bars, which only terminals show.

use crate::interrupts::{endless, has_unnamed_file_in, interrupt, start};
use crate::prelude::*;

/// What a terminal is sent to erase a line.
const ERASE: &str = "\u{1b}[2K";

/// What Ctrl-C sends.
const CONTROL_C: u8 = 3;

/// A command on a terminal.
pub(crate) struct OnTerminal {
    child: Child,
    watchdog: Watchdog,
    shown: String,
}

impl OnTerminal {
    /// `None`, after a note, if there is no program that makes a terminal.
    pub(crate) fn start(arguments: &str) -> Option<Self> {
        let binary = binary();
        // Without `exec`, the exit code would be that of the shell, which Ctrl-C ends as well.
        let command = format!("exec '{}' {arguments}", binary.to_str().unwrap());
        let mut script = Command::new(tools::find("script")?);
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
        script.env("TERM", "xterm").env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = script.spawn().unwrap();
        let watchdog = Watchdog::new(&child, PATIENCE);
        Some(Self {
            child,
            watchdog,
            shown: String::new(),
        })
    }

    /// Waits until it shows this text.
    pub(crate) fn shows(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let mut some = [0; 4096];
            let len = self.child.stdout.as_mut().unwrap().read(&mut some).unwrap();
            assert!(len > 0, "it ended without {text}: {}", self.shown);
            self.shown.push_str(&String::from_utf8_lossy(&some[..len]));
        }
    }

    /// Takes the terminal away, as the end of a connection does.
    pub(crate) fn hang_up(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it with Ctrl-C; what it has shown by then, with its exit code.
    fn interrupt(mut self) -> (String, Option<i32>) {
        self.press_control_c();
        self.ends()
    }

    pub(crate) fn press_control_c(&mut self) {
        let keyboard = self.child.stdin.as_mut().unwrap();
        keyboard.write_all(&[CONTROL_C]).unwrap();
    }

    /// Waits for its end; what it has shown by then, with its exit code.
    pub(crate) fn ends(mut self) -> (String, Option<i32>) {
        let mut rest = Vec::new();
        self.child
            .stdout
            .as_mut()
            .unwrap()
            .read_to_end(&mut rest)
            .unwrap();
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        let status = self.child.wait().unwrap();
        assert!(!self.watchdog.has_bitten(), "it hangs: {}", self.shown);
        (self.shown, status.code())
    }
}

#[test]
fn a_bar_is_shown_and_ctrl_c_clears_it() {
    let world = World::new();
    let file = endless(&world, "file");
    for (command, doing) in [("digest", "hashing"), ("seal", "sealing")] {
        let arguments = format!("{command} '{}'", file.to_str().unwrap());
        let mut terminal = needs!(OnTerminal::start(&arguments));
        terminal.shows(doing);
        let (shown, code) = terminal.interrupt();
        assert_eq!(code, Some(130), "{shown}");
        let (_, left) = shown.rsplit_once(ERASE).expect(&shown);
        assert!(!left.contains(doing), "{shown}");
        assert!(left.contains("interrupted"), "{shown}");
    }
}

/// One that has begun before another has shown its bar has worked for as long, and shows none.
#[test]
fn nothing_of_it_appears_in_a_pipe() {
    let world = World::new();
    let folder = world.directory("folder");
    let file = endless(&world, "folder/file");
    let piped = start(args!["seal", &file]);
    eventually("it has begun", || has_unnamed_file_in(&piped, &folder));
    let arguments = format!("digest '{}'", file.to_str().unwrap());
    let terminal = OnTerminal::start(&arguments).map(|mut terminal| {
        terminal.shows("hashing");
        terminal.interrupt()
    });
    let piped = interrupt(piped, Signal::INT);
    piped.is_interrupted_by(Signal::INT);
    if terminal.is_some() {
        assert!(!piped.stderr.contains(['\r', '\u{1b}']), "{piped:?}");
        assert!(!piped.stderr.contains("sealing"), "{piped:?}");
    }
}
