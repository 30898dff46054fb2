// Certificates that vouch for themselves, of OpenSSL's own making, for tests.
#ifndef LITHIFY_FLEET_OWN_CERTIFICATE_H_
#define LITHIFY_FLEET_OWN_CERTIFICATE_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace lithify::fleet {

struct OwnCertificate {
  std::string cert;  // PEM.
  std::string key;
};

// For a host like "IP:127.0.0.1" or "DNS:worker.example".
inline OwnCertificate MakeCertificate(const std::string& host) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_set_version(cert.get(), X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* name = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(host.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert.get(), name);
  for (const auto& [nid, value] :
       {std::pair{NID_subject_alt_name, host}, {NID_basic_constraints, std::string("CA:TRUE")}}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(cert.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(cert.get(), key.get(), EVP_sha256());
  const auto text = [](auto write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    write(bio.get());
    char* bytes = nullptr;
    const auto size = BIO_get_mem_data(bio.get(), &bytes);
    return std::string(bytes, static_cast<size_t>(size));
  };
  return {.cert = text([&](BIO* bio) { PEM_write_bio_X509(bio, cert.get()); }),
          .key = text([&](BIO* bio) {
            PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_OWN_CERTIFICATE_H_
