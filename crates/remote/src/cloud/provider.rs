use verimount_names::named;

named! {
    /// A protocol of object stores.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Cloud {
        /// Amazon S3, and the many stores that speak its protocol.
        S3 = "S3",
        /// Google Cloud Storage.
        Google = "Google Cloud Storage",
        /// Azure Blob Storage.
        Azure = "Azure Blob Storage",
    }
}

impl Cloud {
    /// What the names of its objects begin with.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3://",
            Self::Google => "gs://",
            Self::Azure => "az://",
        }
    }

    /// How to give credentials, for a message.
    pub(crate) fn how_to_give_credentials(self) -> &'static str {
        match self {
            Self::S3 => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            Self::Google => {
                "set GOOGLE_APPLICATION_CREDENTIALS to the file with the key of a service account"
            }
            Self::Azure => "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        }
    }

    /// What the names of its variables begin with.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::S3 => "AWS_",
            Self::Google => "GOOGLE_",
            Self::Azure => "AZURE_",
        }
    }

    /// The variable that has objects read without credentials.
    pub(crate) fn skip_signature(self) -> String {
        format!("{}SKIP_SIGNATURE", self.prefix())
    }

    /// The variable that allows connections without encryption.
    pub(crate) fn allow_http(self) -> String {
        format!("{}ALLOW_HTTP", self.prefix())
    }
}
