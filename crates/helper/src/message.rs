//! The messages between a process and its helper: each is one packet of a Unix socket, with at most one descriptor.
//!
//! Who asks sends a byte and receives a socket of its own for a question and its answer, so that its sandbox need not let it
//! pass descriptors: the call for that also sends to addresses. A question is the length of a task's name (one byte), the
//! name, and what the task is given. An answer is a byte that says how it went, and what belongs to that.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::retry_on_intr,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
    },
};

use crate::Answer;

/// The longest message in bytes.
const MAX_MESSAGE: usize = 65 << 10;

/// How an answer begins: the task was done.
const DONE: u8 = 0;
/// It was not; the number of the system's error follows.
const SYSTEM: u8 = 1;
/// It was not; a number that stands for the kind of error follows, and its text.
const OTHER: u8 = 2;

/// The kinds of errors that are told apart, by their numbers in an answer. The last stands for all others.
const KINDS: [io::ErrorKind; 5] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::TimedOut,
    io::ErrorKind::Other,
];

/// A question as it is received.
pub(crate) struct Question(Vec<u8>);

impl Question {
    /// The task's name, and what it is given; `None` if the message is malformed.
    pub(crate) fn parts(&self) -> Option<(&str, &[u8])> {
        let (len, rest) = self.0.split_first()?;
        let (name, given) = rest.split_at_checked(usize::from(*len))?;
        Some((str::from_utf8(name).ok()?, given))
    }
}

/// Asks for a socket for one question. Those of several threads are for any of them.
pub(crate) fn request_socket(helper: impl AsFd) -> io::Result<OwnedFd> {
    send_bytes(&helper, &[0])?;
    match receive(helper)? {
        (_, Some(socket)) => Ok(socket),
        (message, None) if message.is_empty() => Err(ended()),
        (_, None) => Err(io::Error::other("the helper process is busy")),
    }
}

/// Waits for somebody who wants to ask; false at the end of the process that does.
pub(crate) fn receive_request(from: impl AsFd) -> io::Result<bool> {
    Ok(!receive(from)?.0.is_empty())
}

/// Sends the socket for a question; `None`: that there is none now.
pub(crate) fn send_socket(to: impl AsFd, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    send_message(to, &[&[0]], socket)
}

/// Sends a question.
pub(crate) fn send_question(to: impl AsFd, task: &str, given: &[u8]) -> io::Result<()> {
    let len = u8::try_from(task.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    send_bytes(to, &[&[len], task.as_bytes(), given].concat())
}

/// Receives a question; of one that never comes, an empty one.
pub(crate) fn receive_question(from: impl AsFd) -> io::Result<Question> {
    Ok(Question(receive(from)?.0))
}

/// Sends an answer.
pub(crate) fn send_answer(to: impl AsFd, answer: &io::Result<Answer>) -> io::Result<()> {
    match answer {
        Ok(answer) => {
            let file = answer.file.as_ref().map(AsFd::as_fd);
            send_message(to, &[&[DONE], &answer.bytes], file)
        }
        Err(error) => match error.raw_os_error() {
            Some(errno) => send_message(to, &[&[SYSTEM], &errno.to_ne_bytes()], None),
            None => {
                let kind = KINDS.iter().position(|kind| *kind == error.kind());
                let kind = kind.unwrap_or(KINDS.len() - 1) as u8;
                send_message(to, &[&[OTHER, kind], error.to_string().as_bytes()], None)
            }
        },
    }
}

/// Receives an answer.
pub(crate) fn receive_answer(from: impl AsFd) -> io::Result<Answer> {
    let (message, file) = receive(from)?;
    let nonsense = || io::Error::other("the helper process answers nonsense");
    match message.split_first() {
        None => Err(ended()),
        Some((&DONE, bytes)) => Ok(Answer {
            bytes: bytes.to_vec(),
            file,
        }),
        Some((&SYSTEM, errno)) => {
            let errno = errno.try_into().map_err(|_| nonsense())?;
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
        }
        Some((&OTHER, [kind, text @ ..])) => {
            let kind = KINDS.get(usize::from(*kind)).ok_or_else(nonsense)?;
            Err(io::Error::new(*kind, String::from_utf8_lossy(text)))
        }
        Some(_) => Err(nonsense()),
    }
}

/// Receives a file that another process sends over a Unix socket; `None` if it closes the socket without one.
///
/// # Errors
/// Those of the system.
pub fn receive_file(from: impl AsFd) -> io::Result<Option<OwnedFd>> {
    Ok(receive(from)?.1)
}

/// Waits until the other side has closed its socket.
pub(crate) fn wait_for_end(from: impl AsFd) {
    // It sends nothing else.
    let _ = receive(from);
}

fn ended() -> io::Error {
    io::Error::other("the helper process has ended")
}

/// Sends a message to where the socket is connected, by the call that does no more.
fn send_bytes(to: impl AsFd, message: &[u8]) -> io::Result<()> {
    check_len(message.len())?;
    retry_on_intr(|| send(to.as_fd(), message, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn check_len(len: usize) -> io::Result<()> {
    if len > MAX_MESSAGE {
        Err(io::Error::other("the message to the helper is too long"))
    } else {
        Ok(())
    }
}

fn send_message(to: impl AsFd, parts: &[&[u8]], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    check_len(parts.iter().map(|part| part.len()).sum())?;
    let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(files));
    }
    retry_on_intr(|| sendmsg(to.as_fd(), &parts, &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message, with its descriptor; an empty one at the end.
fn receive(from: impl AsFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut message = vec![0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        recvmsg(
            from.as_fd(),
            &mut [IoSliceMut::new(&mut message)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message.truncate(received.bytes);
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((message, file))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Seek, Write},
        thread,
    };

    use rustix::io::Errno;

    use super::*;
    use crate::pair;

    /// An answer as the other side receives it.
    fn passed(answer: &io::Result<Answer>) -> io::Result<Answer> {
        let (ours, its) = pair().unwrap();
        send_answer(&its, answer).unwrap();
        receive_answer(&ours)
    }

    #[test]
    fn answers_arrive_as_they_were_given() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"text").unwrap();
        file.rewind().unwrap();
        let arrived = passed(&Ok(Answer {
            bytes: vec![7; 60_000],
            file: Some(file.into()),
        }))
        .unwrap();
        assert_eq!(arrived.bytes, vec![7; 60_000]);
        let mut text = String::new();
        let mut file = File::from(arrived.file.unwrap());
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");

        let busy = passed(&Err(Errno::BUSY.into())).unwrap_err();
        assert_eq!(busy.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
        let missing = io::Error::new(io::ErrorKind::NotFound, "there is none");
        let missing = passed(&Err(missing)).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(missing.to_string(), "there is none");
        let other = passed(&Err(io::Error::new(io::ErrorKind::BrokenPipe, "text"))).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::Other);
    }

    #[test]
    fn questions_arrive_until_the_end() {
        let (ours, its) = pair().unwrap();
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let socket = request_socket(&ours).unwrap();
                send_question(&socket, "mount", b"given").unwrap();
                drop(socket);
                request_socket(&ours).unwrap_err().to_string()
            });
            assert!(receive_request(&its).unwrap());
            let (socket, far) = pair().unwrap();
            send_socket(&its, Some(far.as_fd())).unwrap();
            drop(far);
            let question = receive_question(&socket).unwrap();
            assert_eq!(question.parts(), Some(("mount", &b"given"[..])));
            // The other side has closed it without another question.
            assert_eq!(receive_question(&socket).unwrap().parts(), None);
            assert!(receive_request(&its).unwrap());
            send_socket(&its, None).unwrap();
            assert_eq!(asking.join().unwrap(), "the helper process is busy");
        });
        drop(ours);
        assert!(!receive_request(&its).unwrap());
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (message, expected) in [
            (&b"\x05mount"[..], true),
            (b"\x06mount", false),
            (b"\x01\xff", false),
        ] {
            let (ours, its) = pair().unwrap();
            send_bytes(&ours, message).unwrap();
            let question = receive_question(&its).unwrap();
            assert_eq!(question.parts().is_some(), expected, "{message:?}");
        }
        for answer in [&b"\x03"[..], b"\x01\x00", b"\x02", b"\x02\x09text"] {
            let (ours, its) = pair().unwrap();
            send_bytes(&its, answer).unwrap();
            assert!(receive_answer(&ours).is_err(), "{answer:?}");
        }
    }
}
