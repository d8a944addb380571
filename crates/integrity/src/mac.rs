use hmac::{Hmac, KeyInit};
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{Algorithm, Corruption, Error, Key, Usage, raw, superblock::Salt};

/// The length of a journal section's MAC in bytes; a shorter MAC is padded with zeros.
pub(crate) const SECTION_MAC: usize = 8 * raw::JOURNAL_MAC_PART;

/// The MAC that protects blocks, the journal and, with the HMAC fix, the superblock.
#[derive(Clone)]
pub(crate) enum Mac {
    Sha256(Box<Hmac<Sha256>>),
    Sha512(Box<Hmac<Sha512>>),
}

impl Mac {
    pub(crate) fn new(algorithm: Algorithm, key: &Key) -> Result<Self, Error> {
        match algorithm {
            Algorithm::HmacSha256 => Ok(Self::Sha256(Box::new(keyed(key)))),
            Algorithm::HmacSha512 => Ok(Self::Sha512(Box::new(keyed(key)))),
            _ => Err(Usage::KeyUnused.into()),
        }
    }

    /// Writes the MAC of the superblock's first sector to the end of that sector.
    pub(crate) fn seal_superblock(&self, sector: &mut [u8; raw::SECTOR]) {
        let (covered, place) = sector.split_at_mut(raw::SECTOR - self.size());
        self.compute(&[covered], place);
    }

    /// Checks the MAC at the end of the superblock's first sector.
    pub(crate) fn check_superblock(&self, sector: &[u8; raw::SECTOR]) -> Result<(), Error> {
        let (covered, found) = sector.split_at(raw::SECTOR - self.size());
        let expected = Zeroizing::new(self.of(&[covered]));
        if bool::from(found.ct_eq(&expected[..found.len()])) {
            Ok(())
        } else {
            Err(Corruption::SuperblockMac.into())
        }
    }

    /// The MAC of a journal section. It covers the target sectors of its entries, in order, and
    /// with the HMAC fix also the volume's salt and the section number.
    pub(crate) fn of_section(
        &self,
        salt: Option<&Salt>,
        section: u32,
        entry_sectors: &[u8],
    ) -> [u8; SECTION_MAC] {
        match salt {
            Some(salt) => {
                let section = u64::from(section).to_le_bytes();
                self.of(&[salt, &section, entry_sectors])
            }
            None => self.of(&[entry_sectors]),
        }
    }

    /// The MAC of some bytes, in parts. Behind it are zeros.
    pub(crate) fn of(&self, parts: &[&[u8]]) -> [u8; SECTION_MAC] {
        let mut mac = [0; SECTION_MAC];
        self.compute(parts, &mut mac[..self.size()]);
        mac
    }

    fn size(&self) -> usize {
        match self {
            Self::Sha256(_) => 32,
            Self::Sha512(_) => 64,
        }
    }

    fn compute(&self, parts: &[&[u8]], out: &mut [u8]) {
        match self {
            Self::Sha256(mac) => finish(mac.as_ref(), parts, out),
            Self::Sha512(mac) => finish(mac.as_ref(), parts, out),
        }
    }
}

/// An HMAC initialized with `key`.
fn keyed<M: KeyInit>(key: &Key) -> M {
    M::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length")
}

fn finish<M: hmac::Mac + Clone>(begun: &M, parts: &[&[u8]], out: &mut [u8]) {
    let mut mac = begun.clone();
    for part in parts {
        mac.update(part);
    }
    out.copy_from_slice(&mac.finalize().into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2: the key is "Jefe".
    #[test]
    fn the_mac_is_hmac() {
        let mac = Mac::new(Algorithm::HmacSha256, &Key::new(b"Jefe".to_vec()).unwrap()).unwrap();
        let section = mac.of_section(None, 0, b"what do ya want for nothing?");
        let expected = [
            0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
            0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9,
            0x64, 0xec, 0x38, 0x43,
        ];
        assert_eq!(section[..32], expected);
        assert_eq!(section[32..], [0; 32]);
    }

    #[test]
    fn a_superblock_is_checked_whole() {
        for algorithm in [Algorithm::HmacSha256, Algorithm::HmacSha512] {
            let mac = Mac::new(algorithm, &Key::new(vec![1]).unwrap()).unwrap();
            let mut sector = [7; raw::SECTOR];
            mac.seal_superblock(&mut sector);
            mac.check_superblock(&sector).unwrap();
            for at in 0..raw::SECTOR {
                sector[at] ^= 1;
                assert!(mac.check_superblock(&sector).is_err(), "{algorithm} {at}");
                sector[at] ^= 1;
            }
        }
    }
}
