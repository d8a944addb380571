//! Numbers in headers and records.

/// A number in a field of a header: octal digits between blanks, or, if the first bit is set, the other bits as a
/// signed binary number. An empty field is 0.
pub(crate) fn field(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [first, rest @ ..] if first & 0x80 != 0 => binary(*first, rest),
        _ => octal(bytes),
    }
}

/// A number in a field of a header, as [`field`] reads it, if it is not negative.
pub(crate) fn unsigned_field(bytes: &[u8]) -> Option<u64> {
    field(bytes)?.try_into().ok()
}

fn octal(bytes: &[u8]) -> Option<i64> {
    let text = str::from_utf8(bytes).ok()?.trim_start_matches(' ');
    let end = text.find([' ', '\0']).unwrap_or(text.len());
    let (digits, blanks) = text.split_at_checked(end)?;
    let is_number = digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    if !is_number || !blanks.trim_matches([' ', '\0']).is_empty() {
        return None;
    }
    match digits {
        "" => Some(0),
        digits => i64::from_str_radix(digits, 8).ok(),
    }
}

fn binary(first: u8, rest: &[u8]) -> Option<i64> {
    // The first bit is no part of the number; the second one is its sign.
    let sign = if first & 0x40 != 0 { -1_i64 } else { 0 };
    let first = (sign & !0x7f) | i64::from(first & 0x7f);
    rest.iter().try_fold(first, |number, byte| {
        number.checked_mul(256)?.checked_add(i64::from(*byte))
    })
}

/// A number in decimal digits, and nothing else.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_number);
    digits?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_octal_or_binary() {
        for (bytes, expected) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"77777777", Some(0o7777_7777)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"0000648\0", None),
            (b"644 644\0", None),
            (b"-000644\0", None),
            (b"777777777777", Some((1 << 36) - 1)),
            (b"\x80\0\0\0\0\0\x01\x02", Some(0x102)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", Some(-2)),
            (
                b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                Some(i64::MAX),
            ),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\x80\0\0\0\0\0\0\0", Some(i64::MIN)),
            (b"\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
        ] {
            assert_eq!(field(bytes), expected, "{bytes:?}");
        }
        assert_eq!(unsigned_field(b"\xff\xff\xff\xff\xff\xff\xff\xfe"), None);
    }

    #[test]
    fn decimals_are_digits_alone() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [
            &b""[..],
            b"+1",
            b"-1",
            b" 1",
            b"1 ",
            b"18446744073709551616",
        ] {
            assert_eq!(decimal(wrong), None, "{wrong:?}");
        }
    }
}
