//! Undoes requests whose answer did not reach the kernel.

use zerocopy::FromBytes;

use crate::{
    FileSystem, Handle, NodeId,
    abi::{InHeader, opcode},
    listing::listed_nodes,
};

/// Releases the lookups or the handle that the answer would have given to the kernel.
pub(crate) fn take_back<F: FileSystem>(fs: &F, header: &InHeader, answer: &[u8]) {
    // `nodeid` is the first field of an entry, `fh` that of an open.
    let Ok((number, _)) = u64::read_from_prefix(answer) else {
        return;
    };
    match header.opcode {
        // 0 marks a negative entry.
        opcode::LOOKUP if number != 0 => fs.forget(NodeId(number), 1),
        opcode::READDIRPLUS => listed_nodes(answer).for_each(|node| fs.forget(node, 1)),
        opcode::OPEN => fs.cancel_open(Handle(number)),
        _ => {}
    }
}
