//! A repository of git.

use crate::prelude::*;

/// Runs git in a world, whatever the user's own settings are.
pub(crate) fn git(world: &World, arguments: &[&str]) -> Ended {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(world.root());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("GIT_CONFIG_SYSTEM", "/dev/null");
    git.env("HOME", world.root()).stdin(Stdio::null());
    finish(git)
}

/// Makes a bare repository with one file: `file`, with `content`.
pub(crate) fn repository(world: &World, bare: &Path) {
    let bare = bare.to_str().unwrap();
    let run = |arguments: &[&str]| git(world, arguments).succeeds().text().to_owned();
    run(&["init", "--quiet", "--bare", bare]);
    run(&["init", "--quiet", "work"]);
    fs::write(world.path("work/file"), "content").unwrap();
    run(&["-C", "work", "add", "file"]);
    let author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let commit = ["commit", "--quiet", "-m", "first"];
    run(&[&["-C", "work"], &author[..], &commit].concat());
    run(&[
        "-C",
        "work",
        "push",
        "--quiet",
        bare,
        "HEAD:refs/heads/main",
    ]);
    run(&["-C", bare, "symbolic-ref", "HEAD", "refs/heads/main"]);
}
