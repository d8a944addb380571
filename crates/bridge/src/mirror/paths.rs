use std::{
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::io::Errno;

use super::Mirror;
use crate::{
    NodeId,
    node::FileId,
    table::{Location, MAX_DEPTH},
};

/// Where files are in the source now, whoever moved them.
impl Mirror {
    /// The path of a directory below the source; empty for the source itself.
    ///
    /// # Errors
    /// `ESTALE` if it is no longer below the source.
    pub fn directory_path(&self, node: NodeId) -> Result<PathBuf, Errno> {
        if let Some(place) = self.place_still(node) {
            return Ok(place.to_path_buf());
        }
        let path = self.find_directory(node)?;
        // Where links are followed, other paths lead to it as well.
        if !self.source.meets_mounts() && node != NodeId::ROOT {
            self.places.insert(node, path.as_path().into());
        }
        Ok(path)
    }

    /// Where a directory was last, if it is still there: to ask that takes a third of the time of asking where it is.
    fn place_still(&self, node: NodeId) -> Option<Arc<Path>> {
        let place = self.places.get(&node)?;
        let file = self.nodes.traces(node)?.file;
        self.source.leads_to(&place, file).then_some(place)
    }

    fn find_directory(&self, node: NodeId) -> Result<PathBuf, Errno> {
        let mut names = Vec::new();
        let mut at = node;
        let mut path = loop {
            if at == NodeId::ROOT {
                break PathBuf::new();
            }
            match self.source.path_of(&*self.descriptor(at)?) {
                Ok(found) => break found.ok_or(Errno::STALE)?,
                Err(Errno::NAMETOOLONG) if names.len() < MAX_DEPTH => {}
                Err(errno) => return Err(errno),
            }
            // The system tells only paths that fit into a page: the parent's, and the name there.
            let traces = self.nodes.traces(at).ok_or(Errno::STALE)?;
            if !self.is_at(traces.file, &traces.location)? {
                return Err(Errno::STALE);
            }
            at = traces.location.parent;
            names.push(traces.location);
        };
        for location in names.iter().rev() {
            path.push(location.name()?.as_os_str());
        }
        Ok(path)
    }

    /// The paths of a file other than a directory, at least one: those names by which it was found and by
    /// which it still can be, the last one first. If there are none, another one.
    ///
    /// # Errors
    /// `ESTALE` if it is no longer below the source, if it has lost its last name, or if it has several names
    /// and one is being moved.
    pub fn file_paths(&self, node: NodeId) -> Result<Vec<PathBuf>, Errno> {
        let moves = self.nodes.moves(node).ok_or(Errno::STALE)?;
        let (file, found) = self.nodes.locations(node).ok_or(Errno::STALE)?;
        let (mut paths, mut outdated) = (Vec::new(), Vec::new());
        for location in &found {
            match self.path_at(file, location)? {
                Some(path) => paths.push(path),
                None => outdated.push(location.clone()),
            }
        }
        if found.len() > 1 && !outdated.is_empty() {
            // Until a move is recorded, the old name leads nowhere any more, and the new one is unknown.
            if moves % 2 == 1 || self.nodes.moves(node) != Some(moves) {
                return Err(Errno::STALE);
            }
            self.nodes.forget_locations(node, &found, &outdated);
        }
        match (paths.is_empty(), found.first()) {
            (true, Some(last)) => Ok(vec![self.path_without_name(node, file, last)?]),
            _ => Ok(paths),
        }
    }

    /// The path of a file, if it is where it was found.
    fn path_at(&self, file: FileId, location: &Location) -> Result<Option<PathBuf>, Errno> {
        if !self.is_at(file, location)? {
            return Ok(None);
        }
        match self.directory_path(location.parent) {
            Ok(path) => Ok(Some(path.join(location.name()?.as_os_str()))),
            Err(Errno::STALE) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether a name leads to a file.
    fn is_at(&self, file: FileId, location: &Location) -> Result<bool, Errno> {
        let Ok(name) = location.name() else {
            return Ok(false);
        };
        let found = self
            .descriptor(location.parent)
            .and_then(|directory| self.source.examine(directory.as_fd(), name));
        match found {
            Ok((found, _)) => Ok(found == file),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::XDEV) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// The path of a file that is no longer where it was found.
    fn path_without_name(
        &self,
        node: NodeId,
        file: FileId,
        last: &Location,
    ) -> Result<PathBuf, Errno> {
        let descriptor = self.descriptor(node)?;
        let (_, attr) = self.source.examine_open(&descriptor)?;
        if attr.nlink == 0 && last.name().is_err() {
            // It never had a name.
            return Ok(self.directory_path(last.parent)?.join(""));
        }
        // A removed file may have had a last name that nobody looked up here, and that denied more.
        let path = match self.source.path_of(&descriptor) {
            Err(Errno::NAMETOOLONG) => None,
            found => found?,
        };
        let path = path.filter(|path| self.source.leads_to(path, file));
        path.ok_or(Errno::STALE)
    }
}
