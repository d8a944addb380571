use std::{sync::mpsc::channel, thread, time::Instant};

/// What each of these calls gives, if it does until `end`. Each has a thread of its own: what
/// other users have chosen may never answer, and such a wait cannot be interrupted. It ends with this process.
pub fn in_time<I, O>(
    inputs: impl IntoIterator<Item = I>,
    end: Instant,
    call: fn(I) -> O,
) -> Vec<Option<O>>
where
    I: Send + 'static,
    O: Send + 'static,
{
    let begun = inputs.into_iter().map(|input| {
        let (send, receive) = channel();
        // Sending fails if it came too late.
        let call = move || drop(send.send(call(input)));
        thread::Builder::new()
            .spawn(call)
            .is_ok()
            .then_some(receive)
    });
    let begun: Vec<_> = begun.collect();
    let received = begun.into_iter().map(|receive| {
        let left = end.saturating_duration_since(Instant::now());
        receive?.recv_timeout(left).ok()
    });
    received.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_does_not_return_keeps_nobody() {
        let call = |number: u32| {
            if number == 2 {
                thread::sleep(Duration::MAX);
            }
            number
        };
        let found = in_time([1, 2, 3], Instant::now() + Duration::from_millis(300), call);
        assert_eq!(found[1], None);
        let found = in_time([1, 3], Instant::now() + Duration::from_secs(60), call);
        assert_eq!(found, [Some(1), Some(3)]);
    }
}
