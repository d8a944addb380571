use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::Kind;

/// The capabilities that a kind of daemon keeps, of those that it has.
fn kept(kind: Kind) -> CapabilitySet {
    match kind {
        // Files of others, of those that Landlock leaves.
        Kind::Image => CapabilitySet::DAC_READ_SEARCH,
        // What the users of a mount do is done with their rights; what root does, with all that a file system knows.
        // SYS_ADMIN is asked for to pass files through, and for trusted attributes; SETPCAP for rights of one thread that do
        // not follow its user.
        Kind::Bridge => {
            CapabilitySet::CHOWN
                | CapabilitySet::DAC_OVERRIDE
                | CapabilitySet::DAC_READ_SEARCH
                | CapabilitySet::FOWNER
                | CapabilitySet::FSETID
                | CapabilitySet::LEASE
                | CapabilitySet::MKNOD
                | CapabilitySet::SETFCAP
                | CapabilitySet::SETGID
                | CapabilitySet::SETPCAP
                | CapabilitySet::SETUID
                | CapabilitySet::SYS_ADMIN
        }
        // SYS_RESOURCE, so that memory for writing never waits for what this disk has to write.
        Kind::Volume | Kind::Export => {
            CapabilitySet::DAC_OVERRIDE
                | CapabilitySet::DAC_READ_SEARCH
                | CapabilitySet::SYS_RESOURCE
        }
    }
}

/// What files in memory take besides: to have the kernel read them for users.
pub(crate) const RESIDENT: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// What writing files of others takes besides.
pub(crate) const FILES_OF_OTHERS: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Gives up all capabilities of this thread but those of a kind and `further` ones, and the means to get others. Returns the
/// names of those that are left.
pub(crate) fn keep(kind: Kind, further: CapabilitySet) -> io::Result<Vec<String>> {
    let own = capabilities(None)?;
    let left = own.permitted & (kept(kind) | further);
    for capability in CapabilitySet::all().iter_names().map(|(_, one)| one) {
        if !left.contains(capability) && own.permitted.contains(CapabilitySet::SETPCAP) {
            // The kernel may not know it.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: left,
            permitted: left,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    set_no_new_privs(true)?;
    Ok(named(left))
}

/// The names of this thread's capabilities.
pub(crate) fn names() -> Vec<String> {
    capabilities(None).map_or_else(|_| Vec::new(), |own| named(own.effective))
}

fn named(set: CapabilitySet) -> Vec<String> {
    set.iter_names()
        .map(|(name, _)| name.to_lowercase())
        .collect()
}
