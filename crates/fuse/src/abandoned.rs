//! What is taken back where the kernel did not get an answer.

use zerocopy::FromBytes;

use crate::{
    FileSystem, Handle, NodeId,
    abi::{InHeader, opcode},
    listing::listed_nodes,
};

/// Takes back what the answer to a request would have told the kernel to remember.
pub(crate) fn take_back<F: FileSystem>(fs: &F, header: &InHeader, answer: &[u8]) {
    // `nodeid` of an entry and `fh` of an open come first.
    let Ok((number, _)) = u64::read_from_prefix(answer) else {
        return;
    };
    let node = NodeId(header.nodeid);
    match header.opcode {
        // A name without a file has no node.
        opcode::LOOKUP if number != 0 => fs.forget(NodeId(number), 1),
        opcode::READDIRPLUS => listed_nodes(answer).for_each(|node| fs.forget(node, 1)),
        opcode::OPEN => fs.cancel_open(node, Handle(number)),
        opcode::OPENDIR => fs.releasedir(node, Handle(number)),
        _ => {}
    }
}
