//! Crashes while a volume is formatted or grown.

use verimount_integrity::{Error, Mode, Volume, format, grow};
use verimount_testkit::{Random, Recording, go_on, noise};

use crate::{
    SECTOR, for_all_seeds,
    model::Stamp,
    run::{contents, write},
    scenario::{Memory, Scenario, devices_of},
};

/// How much the devices of a growing volume grow, in bytes.
const GROWTH: usize = 80 * SECTOR;

/// A crash leaves the old volume, no volume, or the new one; after formatting has returned, the new
/// one. A device without a volume does not get half of one either.
#[test]
fn an_interrupted_format_leaves_no_volume_or_a_whole_one() {
    for_all_seeds(|seed, _| {
        let scenario = Scenario::new(seed);
        let (volume, blocks) = written(&scenario, seed);
        if Random::new(seed).coin() {
            format_over(&scenario, seed, volume, Some(blocks));
        } else {
            let foreign = volume.iter().map(|device| noise(device.len(), seed));
            format_over(&scenario, seed, foreign.collect(), None);
        }
    });
}

fn format_over(
    scenario: &Scenario,
    seed: u64,
    before: Vec<Vec<u8>>,
    old: Option<Vec<Option<Vec<Stamp>>>>,
) {
    let recording = Recording::new(before);
    let mut options = scenario.options.clone();
    options.is_zero = false;
    format(devices_of(&recording), &options, &mut go_on).unwrap();
    for point in recording.crash_points() {
        for state in point.states(seed) {
            let is_complete = point.events == recording.events();
            match found(scenario, state) {
                None => assert!(!is_complete, "there is no volume"),
                Some(found) => {
                    let is_new = found.iter().flatten().flatten().all(|&stamp| stamp == 0);
                    let is_whole = found.iter().all(Option::is_some);
                    let is_old = !is_complete && Some(&found) == old.as_ref();
                    assert!(is_old || (is_new && is_whole), "{found:?}");
                }
            }
        }
    }
}

/// The volume has its old or its new size, and keeps its contents.
#[test]
fn an_interrupted_growth_loses_nothing() {
    for_all_seeds(|seed, _| {
        let scenario = Scenario::new(seed);
        let (mut before, old) = written(&scenario, seed);
        for device in &mut before {
            device.resize(device.len() + GROWTH, 7);
        }
        let recording = Recording::new(before);
        let options = scenario.open_options(Mode::Direct);
        let superblock = grow(devices_of(&recording), &options, None, &mut go_on).unwrap();
        let blocks = superblock.provided_data_sectors as usize / scenario.block_sectors();
        assert!(blocks > old.len());
        for point in recording.crash_points() {
            for state in point.states(seed) {
                let found = found(&scenario, state).expect("there is a volume");
                let is_complete = point.events == recording.events();
                let is_grown = found.len() == blocks;
                assert!(is_grown || (!is_complete && found.len() == old.len()));
                let (kept, new) = found.split_at(old.len());
                assert_eq!(kept, old);
                let zero = Some(vec![0; scenario.block_sectors()]);
                assert!(new.iter().all(|block| *block == zero));
            }
        }
    });
}

/// The devices of a volume that was written and flushed, and its blocks.
fn written(scenario: &Scenario, seed: u64) -> (Vec<Vec<u8>>, Vec<Option<Vec<Stamp>>>) {
    let memory = Memory::new(scenario.formatted());
    let volume = scenario.open(memory.devices(), Mode::Journal);
    let sectors = volume.size() as usize / SECTOR;
    write(
        &volume,
        0..sectors,
        Random::new(seed).number() as Stamp >> 1,
    );
    volume.flush().unwrap();
    let found = contents(&volume, scenario.block_sectors());
    // Not closed, so the writes are still in the journal.
    drop(volume);
    (memory.contents(), found)
}

/// The blocks of the volume, if there is one.
fn found(scenario: &Scenario, state: Vec<Vec<u8>>) -> Option<Vec<Option<Vec<Stamp>>>> {
    let options = scenario.open_options(Mode::Direct);
    match Volume::open(Memory::new(state).devices(), &options) {
        Ok(volume) => Some(contents(&volume, scenario.block_sectors())),
        Err(Error::NotIntegrity) => None,
        Err(error) => panic!("{error}"),
    }
}
