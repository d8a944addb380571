//! The extension module of the Python package, `verimount._verimount`: what [`verimount`] does, for the Python code in
//! `python/verimount`, which makes Python's protocols of it.
//!
//! Nothing here holds the interpreter's lock while it reads, and nothing that was opened is used or dropped in a forked
//! child (`handle`).

mod arguments;
mod content;
mod entries;
mod errors;
mod file;
mod handle;
mod image;
mod interrupt;
mod make;
mod metadata;
mod pieces;
mod python_source;
mod ranges;

use pyo3::pymodule;

/// What the Python code uses. Its types are in `_verimount.pyi`.
#[pymodule]
mod _verimount {
    use pyo3::{Bound, PyResult, types::PyModule};
    use verimount::{DigestOptions, Location};

    use crate::{errors::OrRaise, pieces::most_threads};

    #[pymodule_export]
    use crate::{
        arguments::is_remote,
        content::Content,
        entries::Entries,
        file::File,
        image::Image,
        make::{build, digest, seal},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        most_threads();
        // The hash is tested before its first use, which a child must not wait for either.
        let block = Location::source("block", vec![0_u8; 4096]);
        verimount::digest(block, &DigestOptions::default()).or_raise(module.py())?;
        Ok(())
    }
}
