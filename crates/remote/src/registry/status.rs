use ureq::{Body, http::Response};

use crate::{Error, answer::Head, client::Failure};

/// Fails unless the answer has this status.
pub(super) fn expect(status: u16, answer: &Response<Body>) -> Result<(), Failure> {
    let actual = answer.status().as_u16();
    if actual == status {
        Ok(())
    } else {
        Err(Failure {
            error: Error::of_status(actual),
            retry_after: Head::new(actual, answer.headers()).retry_after(),
        })
    }
}
