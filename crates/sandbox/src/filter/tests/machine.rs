//! The machine for which filters are programs: classic BPF, as far as they use it, above `struct seccomp_data`.

use seccompiler::sock_filter;

/// A system call, as a filter sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) number: u32,
    pub(super) architecture: u32,
    pub(super) arguments: [u64; 6],
}

/// The address of the calling instruction, which no filter asks for.
const INSTRUCTION: u64 = 0x7fff_dead_beef;

impl Input {
    /// The words of `struct seccomp_data`, on a machine with the lower half of a number first.
    fn words(&self) -> [u32; 16] {
        let mut words = [0; 16];
        words[..2].copy_from_slice(&[self.number, self.architecture]);
        let numbers = [INSTRUCTION].into_iter().chain(self.arguments);
        for (halves, number) in words[2..].chunks_exact_mut(2).zip(numbers) {
            halves.copy_from_slice(&[number as u32, (number >> 32) as u32]);
        }
        words
    }
}

/// What a program returns for a call.
///
/// # Panics
/// If the kernel would not take the program: it jumps beyond its end, or has an instruction that is not known here.
pub(super) fn run(program: &[sock_filter], input: &Input) -> u32 {
    let words = input.words();
    let mut accumulator = 0;
    let mut next = 0;
    loop {
        let sock_filter { code, jt, jf, k } = program[next];
        next += 1;
        let jump = |condition: bool| usize::from(if condition { jt } else { jf });
        match code {
            // BPF_LD | BPF_W | BPF_ABS
            0x20 => accumulator = words[k as usize / 4],
            // BPF_ALU | BPF_AND | BPF_K
            0x54 => accumulator &= k,
            // BPF_JMP | BPF_JA, | BPF_JEQ, | BPF_JGT, | BPF_JGE
            0x05 => next += k as usize,
            0x15 => next += jump(accumulator == k),
            0x25 => next += jump(accumulator > k),
            0x35 => next += jump(accumulator >= k),
            // BPF_RET | BPF_K
            0x06 => return k,
            unknown => panic!("instruction {unknown:#x}"),
        }
    }
}
