/// Declares a choice of commands: an enumeration with a variant for each, and a `run` that runs the chosen one.
macro_rules! commands {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident($command:ty),)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(clap::Subcommand)]
        $visible enum $name {
            $($(#[$of_variant])* $variant($command),)*
        }

        impl $name {
            $visible fn run(self) -> anyhow::Result<crate::Outcome> {
                match self {
                    $(Self::$variant(command) => command.run(),)*
                }
            }
        }
    };
}

pub(crate) use commands;
