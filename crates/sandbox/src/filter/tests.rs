//! The filter's program is run here over numbers and arguments of all kinds, also those of calls that this kernel does not have.

mod intention;
mod machine;

use std::collections::BTreeSet;

use verimount_testkit::Random;

use self::machine::{Input, run};
use super::*;

/// `AUDIT_ARCH_X86_64`, which x32 shares.
const X86_64: u32 = 0xc000_003e;
/// `__X32_SYSCALL_BIT`
const X32: u32 = 0x4000_0000;
/// `AUDIT_ARCH_I386`, as of `int 0x80`; of AArch64, ARM, RISC-V; none.
const OTHERS: [u32; 5] = [0x4000_0003, 0xc000_00b7, 0x4000_0028, 0xc000_00f3, 0];

/// `SECCOMP_RET_ALLOW`; `SECCOMP_RET_ERRNO` with ENOSYS; `SECCOMP_RET_KILL_PROCESS`.
const ALLOWED: u32 = 0x7fff_0000;
const FAILS: u32 = 0x0005_0026;
const ENDS: u32 = 0x8000_0000;

/// The id of the daemon.
const OWN: u32 = 0x0001_2345;

/// Numbers that any argument may have: small ones, ids, and what differs only where the kernel does not look.
const NUMBERS: [u64; 10] = [
    0,
    1,
    OWN as u64,
    OWN as u64 + 1,
    OWN as u64 | 1 << 32,
    1 << 32,
    // -OWN, as an int and as a long.
    0xfffe_dcbb,
    0xffff_ffff_fffe_dcbb,
    u32::MAX as u64,
    u64::MAX,
];

/// Each of them that differs.
fn all_needs() -> Vec<Needs> {
    let needs = |kind| Needs {
        kind,
        network: false,
        io_uring: false,
        resident: false,
        native: false,
    };
    let image = needs(Kind::Image);
    let bridge = needs(Kind::Bridge);
    vec![
        image,
        Needs {
            network: true,
            ..image
        },
        Needs {
            resident: true,
            ..image
        },
        Needs {
            network: true,
            resident: true,
            ..image
        },
        Needs {
            native: true,
            ..image
        },
        bridge,
        Needs {
            io_uring: true,
            ..bridge
        },
        needs(Kind::Volume),
        needs(Kind::Export),
    ]
}

/// The numbers of calls: those of every kernel, the same with the bit of x32, and some that none has.
fn numbers() -> impl Iterator<Item = u32> {
    let known = (0..=600).flat_map(|number| [number, number | X32]);
    known.chain([0x7fff, 1 << 31, 1 << 31 | 1, u32::MAX, u32::MAX - 1])
}

/// An argument: one of [`NUMBERS`], a small number, or any.
fn argument(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.number() >> 32,
        1 => random.number() >> 50,
        2 => random.number(),
        _ => random.choose(&NUMBERS),
    }
}

fn arguments(random: &mut Random) -> [u64; 6] {
    [(); 6].map(|()| argument(random))
}

/// The arguments that are tried of a call: random ones, and of one that its arguments decide all edges, also with other upper
/// halves.
fn tried(number: u32, random: &mut Random) -> Vec<[u64; 6]> {
    let mut tried: Vec<_> = (0..24).map(|_| arguments(random)).collect();
    let decided = intention::DECIDED.iter().find(|(of, _)| *of == number);
    let Some((_, edges)) = decided else {
        return tried;
    };
    tried.extend((0..1000).map(|_| arguments(random)));
    let [first, second, third] = edges.map(|own| [own, &NUMBERS].concat());
    for a in first {
        for b in &second {
            for c in &third {
                let [_, _, _, d, e, f] = arguments(random);
                let upper = random.number() << 32;
                tried.push([a, *b, *c, d, e, f]);
                tried.push([a ^ upper, b ^ upper, c ^ upper, d, e, f]);
            }
        }
    }
    tried
}

/// Runs `program` over everything, and compares what it returns with `expected`. Returns how many calls were tried.
fn compare(
    needs: Needs,
    program: impl Fn(&Input) -> u32,
    expected: impl Fn(u32, [u64; 6]) -> u32,
) -> usize {
    let mut random = Random::new(7);
    let mut count = 0;
    for number in numbers() {
        for arguments in tried(number, &mut random) {
            let mut input = Input {
                number,
                architecture: X86_64,
                arguments,
            };
            let result = program(&input);
            assert_eq!(
                result,
                expected(number, arguments),
                "{needs:?}: {result:#x} of {input:x?}"
            );
            count += 1;
            if count % 16 != 0 {
                continue;
            }
            for architecture in OTHERS {
                input.architecture = architecture;
                assert_eq!(program(&input), ENDS, "{input:x?}");
                count += 1;
            }
        }
    }
    count
}

/// Whether a call is meant to be made.
fn intended(needs: Needs) -> impl Fn(u32, [u64; 6]) -> bool {
    let free = intention::free(needs);
    let free: BTreeSet<u32> = free.into_iter().map(|(number, _)| number).collect();
    move |number, arguments| {
        free.contains(&number) || intention::is_made(needs, OWN, number, arguments)
    }
}

#[test]
fn the_program_allows_what_is_intended_and_nothing_else() {
    let mut count = 0;
    for needs in all_needs() {
        let program = program(needs, OWN).unwrap();
        let intended = intended(needs);
        count += compare(
            needs,
            |input| run(&program, input),
            |number, arguments| {
                if intended(number, arguments) {
                    ALLOWED
                } else {
                    FAILS
                }
            },
        );
    }
    println!("The filter's program: {count} calls tried, each as intended");
}

/// Of several filters the kernel obeys the one that takes most, which has the least number as one with a sign.
#[test]
fn with_tests_unknown_calls_end_the_process_and_vain_ones_fail() {
    for needs in all_needs() {
        let programs = ending_programs(needs, OWN).unwrap();
        let intended = intended(needs);
        compare(
            needs,
            |input| {
                let results = programs.iter().map(|program| run(program, input));
                results.min_by_key(|result| result.cast_signed()).unwrap()
            },
            |number, arguments| {
                if intended(number, arguments) {
                    ALLOWED
                } else if intention::IN_VAIN.contains(&number) {
                    FAILS
                } else {
                    ENDS
                }
            },
        );
    }
}

#[test]
fn calls_have_the_kernels_numbers() {
    for needs in all_needs() {
        for (number, name) in intention::free(needs) {
            let mut calls = CALLS.iter().chain(OLD);
            let call = calls.find(|call| call.number == i64::from(number));
            assert_eq!(call.unwrap().name, format!("SYS_{name}"));
        }
    }
}
