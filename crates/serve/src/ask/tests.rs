use verimount_testkit::when_told;

use super::*;
use crate::export_options::CHECK;

pub(crate) const ACK: u32 = 1;
pub(crate) const ERR_UNSUP: u32 = 1 << 31 | 1;
pub(crate) const ERR_POLICY: u32 = 1 << 31 | 2;

/// A reply to an option as it is sent.
pub(crate) fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let numbers = [option, kind, data.len() as u32].map(u32::to_be_bytes);
    let magic = 0x0003_e889_0455_65a9_u64.to_be_bytes();
    [&magic[..], numbers.as_flattened(), data].concat()
}

#[test]
fn only_a_status_is_accepted() {
    let asked = |reply: &[u8]| {
        let said = [b"NBDMAGICIHAVEOPT\0\x03", reply].concat();
        when_told(&said, told_status)
    };
    assert_eq!(asked(&reply(STATUS, STATUS, b"ok")).unwrap(), b"ok");
    let left = when_told(b"", told_status);
    assert!(matches!(left, Err(AskError::Full)), "{left:?}");
    for wrong in [
        reply(STATUS, ERR_UNSUP, b""),
        reply(STATUS, ACK, b"ok"),
        reply(CHECK, CHECK, b"ok"),
        reply(STATUS, STATUS, &[0; MAX_STATUS as usize + 1]),
        // Another server ends the connection.
        Vec::new(),
    ] {
        let asked = asked(&wrong);
        assert!(matches!(asked, Err(AskError::NotOurs)), "{asked:?}");
    }
}
