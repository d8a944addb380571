//! One user of a shared bridge cannot use up its descriptors.

use super::{WAYS, limits::limited};
use crate::prelude::*;

/// Opens a file the given number of times; prints the number of successes and the errors.
const OPEN: &str = r"
import errno, resource, sys
become_nobody()
path, count = sys.argv[1], int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
opened, errors = 0, set()
for _ in range(count):
    try:
        os.open(path, os.O_RDWR)
        opened += 1
    except OSError as error:
        errors.add(errno.errorcode[error.errno])
print(opened, *errors, flush=True)
sys.stdin.readline()
";

/// How many files the daemon may have open; as many are opened through the mount. In full,
/// `VERIMOUNT_OPENS` says 20000.
const OPENS: usize = 3000;

#[test]
fn one_user_opens_as_many_files_as_possible() {
    let opens = std::env::var("VERIMOUNT_OPENS").map_or(OPENS, |text| text.parse().unwrap());
    for way in WAYS {
        let world = needs!(World::shared_source());
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        let own = src.join("own");
        fs::write(&own, "").unwrap();
        chown(&own, Some(65534), Some(65534)).unwrap();
        let limit = limited(&format!("{opens}:{opens}"));
        let mounted =
            Daemon::bridge_as(limit, &src, &mnt, &["--allow-other", "--passthrough", way]);
        let own = mounted.path("own");
        // Three processes, none of which reaches its own limit.
        let count = opens.div_ceil(3).to_string();
        let arguments = [own.to_str().unwrap(), &count];
        let mut hogs = needs!(
            (0..3)
                .map(|_| Hog::start(OPEN, &arguments))
                .collect::<Option<Vec<_>>>()
        );
        let mut opened = 0;
        for hog in &mut hogs {
            let said = hog.says();
            let mut words = said.split(' ');
            opened += words.next().unwrap().parse::<usize>().unwrap();
            assert!(words.all(|error| error == "EMFILE"), "{said}");
        }
        assert!(opened > opens / 20, "{opened} is hardly any");
        others_can_work(mounted.directory());
        for mut hog in hogs {
            hog.tell();
            hog.ends_well();
        }
        // What is closed can be opened again, once the kernel has told that it is closed.
        eventually("there is room again", || {
            Hog::start(OPEN, &[own.to_str().unwrap(), "1"])
                .unwrap()
                .says()
                == "1"
        });
        mounted.unmount();
    }
}
