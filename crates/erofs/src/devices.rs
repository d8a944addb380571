//! The devices that an image's data is on.

use verimount_source::{ReadAt, Scratch};
use verimount_verity::Checked;
use zerocopy::FromBytes;

use crate::{
    Error, Unsupported, error::Defect, piece::Place, raw, space::Address, superblock::Superblock,
};

/// The image and its further devices.
pub(crate) struct Devices {
    image: Checked,
    slots: Vec<Slot>,
    /// Which bits of a device's number count.
    mask: u16,
    /// No device was given: all that is on one is in the image, where the slots say.
    is_flat: bool,
}

/// A further device.
struct Slot {
    source: Option<Checked>,
    /// Where it begins among the addresses of the image, in bytes; 0 if it is not among them.
    unified_at: u64,
    /// Its length in bytes.
    len: u64,
}

impl Devices {
    /// The devices that the image's table has. Either all or none of them are given.
    pub(crate) fn read(
        superblock: &Superblock,
        image: Checked,
        given: Vec<Checked>,
    ) -> Result<Self, Error> {
        let count = superblock.devices.count;
        let is_flat = given.is_empty();
        if !is_flat && given.len() != usize::from(count) {
            return Err(Unsupported::DeviceCount {
                expected: count,
                given: given.len(),
            }
            .into());
        }
        let mut given = given.into_iter();
        let mut slots = Vec::new();
        if count > 0 {
            let mut scratch = Scratch::default();
            let len = usize::from(count).saturating_mul(size_of::<raw::DeviceSlot>());
            let table = image.read_borrowed(&mut scratch, superblock.devices.at, len)?;
            let table = <[raw::DeviceSlot]>::ref_from_bytes(table).unwrap_or_default();
            slots.extend(
                table
                    .iter()
                    .map(|raw| Slot::new(raw, superblock, given.next())),
            );
        }
        Ok(Self {
            image,
            slots,
            // All ones, up to the first power of two above the highest number.
            mask: u16::MAX
                .checked_shr(count.leading_zeros())
                .unwrap_or_default(),
            is_flat,
        })
    }

    /// The image itself.
    pub(crate) fn image(&self) -> &dyn ReadAt {
        &self.image
    }

    /// Bytes of the image and the devices that are given.
    pub(crate) fn size(&self) -> u64 {
        let given = self.slots.iter().filter_map(|slot| slot.source.as_ref());
        let sizes = given.map(ReadAt::size);
        sizes.fold(self.image.size(), u64::saturating_add)
    }

    /// Whether there are no further devices.
    pub(crate) fn is_one(&self) -> bool {
        self.slots.is_empty()
    }

    /// The device with this number.
    pub(crate) fn get(&self, number: u16) -> Result<&dyn ReadAt, Error> {
        let Some(index) = number.checked_sub(1) else {
            return Ok(self.image());
        };
        let slot = self.slots.get(usize::from(index));
        match slot.and_then(|slot| slot.source.as_ref()) {
            Some(source) => Ok(source),
            None => Err(Unsupported::NoDevice(number).into()),
        }
    }

    /// Where the data is that the format says is on this device at `at`.
    pub(crate) fn locate(&self, device: u16, at: u64) -> Result<Place, Error> {
        let device = device & self.mask;
        match device.checked_sub(1) {
            None => Ok(self.locate_unified(at)),
            Some(index) => {
                let missing = || Defect::Device(device).at(Address::in_image(at));
                let slot = self.slots.get(usize::from(index)).ok_or_else(missing)?;
                if self.is_flat {
                    let at = slot.unified_at.checked_add(at).ok_or_else(missing)?;
                    return Ok(Place::Device { device: 0, at });
                }
                Ok(Place::Device { device, at })
            }
        }
    }

    /// Where the data is that has this address among those of the image.
    fn locate_unified(&self, at: u64) -> Place {
        let in_image = Place::Device { device: 0, at };
        if self.is_flat {
            return in_image;
        }
        let numbered = self.slots.iter().zip(1..);
        let mut inside = numbered.filter_map(|(slot, device)| {
            let at = at
                .checked_sub(slot.unified_at)
                .filter(|_| slot.unified_at != 0)?;
            (at < slot.len).then_some(Place::Device { device, at })
        });
        inside.next().unwrap_or(in_image)
    }
}

impl Slot {
    fn new(raw: &raw::DeviceSlot, superblock: &Superblock, source: Option<Checked>) -> Self {
        let start_of = |high: u16, low: u32| {
            let is_wide = superblock.has_wide_addresses();
            let high = if is_wide { u64::from(high) << 32 } else { 0 };
            let start = superblock.block_size.start_of(high | u64::from(low));
            start.unwrap_or(u64::MAX)
        };
        Self {
            source,
            unified_at: start_of(raw.unified_block_high.get(), raw.unified_block.get()),
            len: start_of(raw.blocks_high.get(), raw.blocks.get()),
        }
    }
}
