//! Verified storage from user space: images and files of which every byte is checked when it is read, wherever they are.
//!
//! ```no_run
//! use verimount::{Image, OpenOptions};
//!
//! let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
//! let options = OpenOptions::new().digest(digest.parse()?);
//! let image = Image::open("app.img", &options)?;
//! print!("{}", image.read_to_string("docs/README.md")?);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Concepts
//!
//! **Sealed files.** A Merkle tree, at the end of a file or in `FILE.verity`, has a digest of each block. The digest of the
//! tree, 32 bytes, so stands for the whole content, as the kernel's fs-verity computes it. [`seal`] makes one for any file.
//! A [`Location`] says where a file is: on this machine, on a web server, in a registry or object store.
//!
//! **Pins.** [`OpenOptions`] say which content is accepted: by its digest, by the key that it is signed with, by its root
//! hash of dm-verity. Nothing opens without, unless that is asked for. Opening reads the seal only. What is read afterwards
//! is verified in the memory that it is handed out in.
//!
//! **Images.** [`build`] makes an image of a directory or archive. [`Image`] reads one by path, as [`std::fs`] reads
//! directories. [`File`] reads a single file; [`Content`] is either.
//!
//! **Errors.** There is one [`Error`], whose [`kind`](Error::kind) says what it means. Where bytes do not match, it has the
//! [`Mismatch`].
//!
//! Mounts for all programs, and volumes and bridges, which are written to, are in the crate `verimount-host`.
//!
//! # Programs
//!
//! A file of an image on a web server, by its path. What was fetched is kept in a cache:
//!
//! ```
//! # #[cfg(feature = "remote")] {
//! # use verimount::{BuildOptions, RemoteOptions, build};
//! # use verimount_testkit::HttpServer;
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # std::fs::create_dir_all("app/docs")?;
//! # std::fs::write("app/docs/README.md", "hello\n")?;
//! # let built = build("app", "app.img", &BuildOptions::default())?;
//! # let digest = built.digest.expect("it is sealed").to_string();
//! # let server = HttpServer::encrypted(std::fs::read("app.img")?);
//! # let url = server.url("/app.img");
//! # let mut remote = RemoteOptions::default();
//! # remote.authorities = Some(HttpServer::CERTIFICATE.parse()?);
//! use verimount::{Cache, Image, OpenOptions};
//!
//! // `url` is "https://example.org/app.img", and `digest` "sha256:…".
//! let options = OpenOptions::new()
//! #   .remote(remote)
//!     .digest(digest.parse()?)
//!     .cache(Cache::open("cache", None)?);
//! let image = Image::open(&*url, &options)?;
//! assert_eq!(image.read_to_string("docs/README.md")?, "hello\n");
//! # }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Sixteen threads that list an image and read all of its files:
//!
//! ```
//! # use verimount::{BuildOptions, build};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # std::fs::create_dir_all("app/docs")?;
//! # std::fs::write("app/docs/README.md", "hello\n")?;
//! # let digest = build("app", "app.img", &BuildOptions::default())?.digest.expect("it is sealed");
//! use verimount::{Error, Image, OpenOptions};
//!
//! let image = Image::open("app.img", &OpenOptions::new().digest(digest))?;
//! let read_all = || -> Result<usize, Error> {
//!     let files = image.walk("")?.collect::<Result<Vec<_>, _>>()?;
//!     let files = files.iter().filter(|file| file.metadata().is_file());
//!     files.map(|file| Ok(image.read(file.path())?.len())).sum()
//! };
//! std::thread::scope(|scope| {
//!     let readers: Vec<_> = (0..16).map(|_| scope.spawn(read_all)).collect();
//!     readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap().unwrap(), 6));
//! });
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Verifying all of a file, with progress, until somebody wants it to end:
//!
//! ```
//! # use verimount::{SealOptions, seal};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # std::fs::write("weights", vec![7; 3 << 20])?;
//! # seal("weights", &SealOptions::default())?;
//! use std::ops::ControlFlow;
//! use verimount::{Content, ErrorKind, OpenOptions, VerifyOptions, Watcher};
//!
//! let content = Content::open("weights", &OpenOptions::new().unpinned())?;
//! let mut options = VerifyOptions::default();
//! options.watcher = Watcher::new(|progress| {
//!     println!("{} of {} bytes", progress.done, progress.total);
//!     ControlFlow::Continue(())
//! });
//! assert!(content.verify(&options)?.is_good());
//! options.watcher = Watcher::new(|_| ControlFlow::Break(()));
//! assert_eq!(content.verify(&options).unwrap_err().kind(), ErrorKind::Cancelled);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A source of one's own, such as a store that is slow to read, with a cache:
//!
//! ```
//! # #[cfg(feature = "remote")] {
//! # use verimount::{ReadError, SealOptions, seal};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # std::fs::write("weights", vec![7; 100_000])?;
//! # let options = SealOptions { append: true, ..SealOptions::default() };
//! # let digest = seal("weights", &options)?.identity.to_string();
//! # struct Store(std::fs::File);
//! # impl ReadAt for Store {
//! #     fn size(&self) -> u64 { self.0.metadata().unwrap().len() }
//! #     fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
//! #         use std::os::unix::fs::FileExt;
//! #         let len = buf.len();
//! #         let failed = |source| ReadError::Io { offset, len, source };
//! #         self.0.read_exact_at(buf, offset).map_err(failed)
//! #     }
//! # }
//! # let store = Store(std::fs::File::open("weights")?);
//! use verimount::{Cache, File, Location, OpenOptions, ReadAt};
//!
//! // `store` implements `ReadAt`: a size, and reads at any offset.
//! let source = Location::slow_source("weights", store);
//! let cache = Cache::open("cache", None)?;
//! let options = OpenOptions::new().digest(digest.parse()?).cache(cache);
//! let mut bytes = [0; 1000];
//! File::open(source, &options)?.read_exact_at(&mut bytes, 50_000)?;
//! assert_eq!(bytes, [7; 1000]);
//! # }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | for |
//! |---|---|
//! | `build` (default) | making images; model signatures; root hashes that containerd writes beside layers |
//! | `sign` (default) | making keys and signatures |
//! | `remote` | content on web servers (`https://…`) and in registries (`oci://…`), and its cache |
//! | `clouds` (default) | in object stores as well (`s3://…`, `gs://…`, `az://…`) |
//!
//! Without any, images and files are read, verified, extracted and sealed.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![warn(missing_debug_implementations)]

#[cfg(feature = "build")]
mod archive_input;
#[cfg(feature = "build")]
mod blob;
#[cfg(feature = "build")]
mod build;
#[cfg(feature = "build")]
mod build_fault;
#[cfg(feature = "build")]
mod build_format;
mod content;
mod describe;
mod diff;
mod extract;
#[cfg(feature = "remote")]
mod far;
mod fault;
mod file;
mod foreign;
mod image;
#[cfg(feature = "build")]
mod image_archive;
mod image_device;
mod image_format;
#[cfg(feature = "build")]
mod image_plan;
#[cfg(feature = "build")]
mod layer_store;
mod listing;
#[cfg(feature = "build")]
mod losses;
mod metadata;
#[cfg_attr(not(feature = "build"), path = "model/absent.rs")]
mod model;
mod open;
mod open_options;
mod prefetch;
mod seal;
#[cfg(feature = "sign")]
mod sign;
mod verify;

pub mod options;

#[cfg(feature = "build")]
pub use build::{BuildOptions, Built, build, build_archive};
#[cfg(feature = "build")]
pub use build_format::{ImageFormat, RomfsOptions};
pub use content::Content;
pub use describe::{Description, FileKind, FoundFormat, FoundSeal, describe};
pub use diff::{Difference, diff};
pub use extract::{ExtractOptions, Extracted, Unrestored, UnrestoredFiles, UnrestoredText};
pub use file::File;
pub use image::Image;
pub use image_device::ImageDevice;
pub use image_format::ImageDescription;
#[cfg(feature = "build")]
pub use layer_store::build_layer_store;
pub use listing::{DirEntry, ReadDir, Walk};
#[cfg(feature = "build")]
pub use losses::{LossText, RefusedLosses};
pub use metadata::Metadata;
pub use model::{ModelClaim, ModelKey, ModelSignature};
pub use open_options::OpenOptions;
pub use prefetch::Prefetch;
pub use seal::{DigestOptions, NewSeal, SealFormat, SealOptions, digest, seal};
#[cfg(feature = "sign")]
pub use sign::{NewKeyFiles, SealedFile};
pub use verify::{Finding, Repaired, Report, VerifiedModel, VerifyOptions};

/// ```
/// use verimount::{ErrorKind, Image, OpenOptions};
///
/// let options = OpenOptions::new().unpinned();
/// let error = Image::open("missing.img", &options).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert!(error.to_string().starts_with("missing.img: "));
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
/// ```
#[doc(inline)]
pub use verimount_content::Error;
/// ```
/// use std::path::Path;
/// use verimount::Location;
///
/// let file = Location::from(Path::new("app.img"));
/// assert_eq!(file.path(), Some(Path::new("app.img")));
/// # #[cfg(feature = "remote")]
/// # {
/// let remote: Location = "https://example.org/app.img".parse()?;
/// assert!(remote.is_remote());
/// # }
/// # Ok::<_, verimount::LocationError>(())
/// ```
#[doc(inline)]
pub use verimount_content::Location;
#[doc(inline)]
pub use verimount_content::{
    ErrorKind, LocationError, MirrorStats, ParseRootHashError, Pin, PlaceStats, Progress, RootHash,
    Step, Unshared, UnsharedReason, Watcher,
};
pub use verimount_source::{Fetch, ReadAt, ReadError};
pub use verimount_tree::{FileType, Timestamp};
#[cfg(feature = "sign")]
pub use verimount_verity::SecretKey;
pub use verimount_verity::{FileDigest, Identity, Mismatch, PublicKey};

#[cfg(feature = "remote")]
pub use {
    far::{PullOptions, Pulled, PushOptions, Pushed, pull, push},
    verimount_cache::{Cache, CacheError},
    verimount_remote::{RemoteOptions, set_fetch_memory},
};
