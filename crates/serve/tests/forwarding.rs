//! A verified tree has each request answered by the tree below it, and none by a default.

use std::{
    ffi::OsStr,
    mem,
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use verimount_serve::VerifiedTree;
use verimount_source::Scratch;
use verimount_tree::{
    AddEntry, AddEntryAndAttr, AddReadable, Attr, Cursor, Error, Extent, Measurement, NodeId,
    Ownership, Tree, Usage, VisitPlace, XattrNames,
};

/// An empty tree that notes which of its methods are called.
#[derive(Default)]
struct Noting(Arc<Mutex<Vec<&'static str>>>);

impl Noting {
    fn note<T>(&self, method: &'static str, answer: T) -> T {
        self.0.lock().unwrap().push(method);
        answer
    }
}

// Without it, a new method would be forgotten here as well.
#[warn(clippy::missing_trait_methods)]
impl Tree for Noting {
    fn attr(&self, _: NodeId) -> Result<Attr, Error> {
        self.note("attr", Err(Error::NotFound))
    }

    fn lookup(&self, _: NodeId, _: &OsStr) -> Result<Attr, Error> {
        self.note("lookup", Err(Error::NotFound))
    }

    fn parent(&self, _: NodeId) -> Result<Attr, Error> {
        self.note("parent", Err(Error::NotFound))
    }

    fn list(&self, _: NodeId, _: Cursor, _: &mut AddEntry<'_>) -> Result<(), Error> {
        self.note("list", Ok(()))
    }

    fn list_with_attrs(
        &self,
        _: NodeId,
        _: Cursor,
        _: &mut AddEntryAndAttr<'_>,
    ) -> Result<(), Error> {
        self.note("list_with_attrs", Ok(()))
    }

    fn list_readable(&self, _: NodeId, _: Cursor, _: &mut AddReadable<'_>) {
        self.note("list_readable", ());
    }

    fn read<'s>(&self, _: NodeId, _: u64, _: usize, _: &'s mut Scratch) -> Result<&'s [u8], Error> {
        self.note("read", Ok(&[]))
    }

    fn readlink<'s>(&self, _: NodeId, _: &'s mut Scratch) -> Result<&'s [u8], Error> {
        self.note("readlink", Ok(&[]))
    }

    fn usage(&self) -> Usage {
        let usage = Usage {
            bytes: 0,
            name_max: 0,
            max_entries: 0,
        };
        self.note("usage", usage)
    }

    fn claimed_id(&self) -> Option<u32> {
        self.note("claimed_id", None)
    }

    fn walk_places(&self, _: &mut VisitPlace<'_>) -> ControlFlow<()> {
        self.note("walk_places", ControlFlow::Continue(()))
    }

    fn shares_data(&self) -> bool {
        self.note("shares_data", true)
    }

    fn ownership(&self) -> Ownership {
        self.note("ownership", Ownership::Borrowed)
    }

    fn has_access_lists(&self) -> bool {
        self.note("has_access_lists", true)
    }

    fn xattr_names(&self, _: NodeId) -> Result<XattrNames, Error> {
        self.note("xattr_names", Ok(XattrNames::default()))
    }

    fn xattr(&self, _: NodeId, _: &OsStr) -> Result<Vec<u8>, Error> {
        self.note("xattr", Err(Error::NoAttribute))
    }

    fn measure(&self, _: NodeId) -> Result<Option<Measurement>, Error> {
        self.note("measure", Ok(None))
    }

    fn has_holes(&self) -> bool {
        self.note("has_holes", true)
    }

    fn will_need(&self, _: NodeId, _: u64, _: u64) {
        self.note("will_need", ());
    }

    fn will_walk(&self) {
        self.note("will_walk", ());
    }

    fn extent(&self, _: NodeId, _: u64) -> Result<Extent, Error> {
        self.note("extent", Err(Error::PastEnd))
    }
}

/// Calls each method.
fn call_all(tree: &dyn Tree) {
    let (root, start, name) = (NodeId::ROOT, Cursor::START, OsStr::new("name"));
    let go_on = ControlFlow::Continue(());
    let scratch = &mut Scratch::default();
    let _ = tree.attr(root);
    let _ = tree.lookup(root, name);
    let _ = tree.parent(root);
    let _ = tree.list(root, start, &mut |_, _| go_on);
    let _ = tree.list_with_attrs(root, start, &mut |_, _, _| go_on);
    tree.list_readable(root, start, &mut |_| go_on);
    let _ = tree.read(root, 0, 1, scratch);
    let _ = tree.readlink(root, scratch);
    tree.usage();
    let _ = tree.claimed_id();
    let _ = tree.walk_places(&mut |_| go_on);
    assert!(tree.shares_data() && tree.has_access_lists() && tree.has_holes());
    assert_eq!(tree.ownership(), Ownership::Borrowed);
    let _ = tree.xattr_names(root);
    let _ = tree.xattr(root, name);
    let _ = tree.measure(root);
    tree.will_need(root, 0, 1);
    tree.will_walk();
    let _ = tree.extent(root, 0);
}

#[test]
fn each_method_reaches_the_tree() {
    let tree = Noting::default();
    let noted = tree.0.clone();
    let take = || mem::take(&mut *noted.lock().unwrap());
    call_all(&tree);
    let called = take();
    assert_eq!(called.len(), 21);
    call_all(&VerifiedTree::new(Box::new(tree), None, Arc::default()));
    assert_eq!(take(), called);
}
