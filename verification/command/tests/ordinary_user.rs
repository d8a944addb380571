//! Mounting does not need root: all tests in `mounting`, `bridge` and `volume` again, as an ordinary user.

use crate::common::run::BINARY;
use crate::prelude::*;

#[track_caller]
fn pass(names: &[&str]) {
    pass_as_nobody(names, |command, world| {
        // As every login session has one.
        command.env("XDG_RUNTIME_DIR", world.path("home"));
        command.env(BINARY, reachable_copy(&binary(), world));
    });
}

#[test]
fn mounts() {
    pass(&["mounting::"]);
}

#[test]
fn bridges() {
    pass(&["bridge::"]);
}

#[test]
fn volumes() {
    pass(&["volume::"]);
}

#[test]
fn hostile_images() {
    pass(&["hostile::defects"]);
}
