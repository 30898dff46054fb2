"""Certificates for hosts of a test: of one authority, for an address each."""

import subprocess

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


class Authority:
    """`directory`/ca.pem, and NAME.pem with NAME.key for whoever asked."""

    def __init__(self, directory):
        self.directory = directory
        self.ca = directory / "ca.pem"
        _openssl("req", "-x509", *_KEY, "-days", 2, "-subj", "/CN=tests", "-keyout",
                 directory / "ca.key", "-out", self.ca)

    def issue(self, name, address):
        """Once for each name."""
        base = self.directory / name
        if base.with_suffix(".pem").exists():
            return base.with_suffix(".pem"), base.with_suffix(".key")
        extension = base.with_suffix(".ext")
        extension.write_text(f"subjectAltName=IP:{address}\n", encoding="utf-8")
        _openssl("req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{base}.key", "-out",
                 f"{base}.csr")
        _openssl("x509", "-req", "-in", f"{base}.csr", "-CA", self.ca, "-CAkey",
                 self.directory / "ca.key", "-CAcreateserial", "-days", 2, "-extfile", extension,
                 "-out", f"{base}.pem")
        return base.with_suffix(".pem"), base.with_suffix(".key")
