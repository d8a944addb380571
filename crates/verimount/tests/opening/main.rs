//! What is opened, whatever servers and caches say: only what is pinned, and always what is honest.

mod in_registry;
mod model;
mod named;
mod replaced;
mod stored;
mod trust;
