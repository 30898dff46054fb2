#include "observe/audit_checkpoint.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/secret.h"
#include "base/text.h"
#include "observe/audit_line.h"
#include "observe/audit_posix.h"

namespace lithify::observe {
namespace {

using Json = nlohmann::ordered_json;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

constexpr int64_t kKeyBytesMax = int64_t{64} * 1024;
constexpr size_t kSignatureBytes = 64;

std::string Hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::optional<std::string> FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) {
    int byte = 0;
    for (const char c : hex.substr(i, 2)) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit && (c < 'a' || c > 'f')) return std::nullopt;
      byte = byte * 16 + (digit ? c - '0' : c - 'a' + 10);
    }
    out += static_cast<char>(byte);
  }
  return out;
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string Signable(const AuditCheckpoint& checkpoint) {
  return "lithify audit checkpoint 1\n" + std::to_string(checkpoint.seq) + "\n" + checkpoint.hash +
         "\n" + FormatTime(checkpoint.time) + "\n" + checkpoint.key_id + "\n";
}

std::string KeyId(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  LITHIFY_CHECK(size > 0, "OpenSSL cannot write an Ed25519 key");
  const std::string id =
      Sha256Hex({reinterpret_cast<const char*>(der), static_cast<size_t>(size)}).substr(0, 16);
  OPENSSL_free(der);
  return id;
}

// Without asking for a password on the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

Result<PrivateKey> LoadKey(const std::string& path, bool secret) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {
    const bool denied = errno == EACCES || errno == EPERM;
    const bool absent = errno == ENOENT || errno == ENOTDIR;
    return Fail(denied   ? Code::kDenied
                : absent ? Code::kNotFound
                         : Code::kInvalid,
                "cannot read the key of the audit log", path,
                "give a PEM file that this user can read");
  }
  LITHIFY_TRY_ASSIGN(std::string pem, ReadRange(fd.get(), 0, kKeyBytesMax, path));
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  LITHIFY_CHECK(bio != nullptr, "OpenSSL has no memory");
  PrivateKey key(secret ? PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr)
                        : PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassword, nullptr),
                 EVP_PKEY_free);
  ERR_clear_error();
  Wipe(pem);
  if (key != nullptr && EVP_PKEY_id(key.get()) == EVP_PKEY_ED25519) return key;
  return Fail(Code::kInvalid,
              std::string(secret ? "no private Ed25519 key" : "no public Ed25519 key") + " in PEM",
              path,
              secret ? "make one with: openssl genpkey -algorithm ed25519 -out FILE"
                     : "make it from the private one: openssl pkey -in KEY -pubout -out FILE");
}

}  // namespace

struct AuditSigner::Key {
  PrivateKey pkey;
};
struct AuditPublicKey::Key {
  PrivateKey pkey;
};

AuditSigner::AuditSigner(std::unique_ptr<Key> key)
    : key_(std::move(key)), key_id_(KeyId(key_->pkey.get())) {}
AuditSigner::~AuditSigner() = default;

AuditPublicKey::AuditPublicKey(std::unique_ptr<Key> key)
    : key_(std::move(key)), key_id_(KeyId(key_->pkey.get())) {}
AuditPublicKey::~AuditPublicKey() = default;

Result<std::shared_ptr<const AuditSigner>> AuditSigner::Load(const std::string& path) {
  LITHIFY_TRY_ASSIGN(PrivateKey key, LoadKey(path, true));
  return std::shared_ptr<const AuditSigner>(
      new AuditSigner(std::make_unique<Key>(Key{std::move(key)})));
}

Result<std::shared_ptr<const AuditPublicKey>> AuditPublicKey::Load(const std::string& path) {
  LITHIFY_TRY_ASSIGN(PrivateKey key, LoadKey(path, false));
  return std::shared_ptr<const AuditPublicKey>(
      new AuditPublicKey(std::make_unique<Key>(Key{std::move(key)})));
}

AuditCheckpoint AuditSigner::Sign(uint64_t seq, std::string hash, Time time) const {
  AuditCheckpoint made{
      .seq = seq, .hash = std::move(hash), .time = time, .key_id = key_id_, .signature = {}};
  const std::string text = Signable(made);
  std::array<unsigned char, kSignatureBytes> signature{};
  size_t size = signature.size();
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const bool done =
      context != nullptr &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_->pkey.get()) == 1 &&
      EVP_DigestSign(context.get(), signature.data(), &size, Bytes(text), text.size()) == 1;
  LITHIFY_CHECK(done && size == kSignatureBytes, "OpenSSL cannot sign with an Ed25519 key");
  made.signature = Hex(signature);
  return made;
}

bool AuditPublicKey::Signed(const AuditCheckpoint& checkpoint) const {
  const auto signature = FromHex(checkpoint.signature);
  if (checkpoint.key_id != key_id_ || !signature) return false;
  const std::string text = Signable(checkpoint);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const bool holds =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_->pkey.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(*signature), signature->size(), Bytes(text),
                       text.size()) == 1;
  ERR_clear_error();
  return holds;
}

std::string CheckpointLine(const AuditCheckpoint& checkpoint) {
  const Json out = {{"seq", checkpoint.seq},
                    {"hash", checkpoint.hash},
                    {"time", FormatTime(checkpoint.time)},
                    {"key_id", checkpoint.key_id},
                    {"signature", checkpoint.signature}};
  return out.dump();
}

Result<AuditCheckpoint> ParseCheckpointLine(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  const auto text = [&](const char* name) -> std::optional<std::string> {
    if (!object.is_object() || !object.contains(name) || !object[name].is_string()) {
      return std::nullopt;
    }
    return object[name].get<std::string>();
  };
  const auto hash = text("hash");
  const auto time = text("time");
  const auto key_id = text("key_id");
  const auto signature = text("signature");
  if (!hash || !time || !key_id || !signature || !object.contains("seq") ||
      !object["seq"].is_number_unsigned()) {
    return Fail(Code::kCorrupt, "no checkpoint");
  }
  LITHIFY_TRY_ASSIGN(const Time parsed, ParseTime(*time));
  return AuditCheckpoint{.seq = object["seq"].get<uint64_t>(),
                         .hash = *hash,
                         .time = parsed,
                         .key_id = *key_id,
                         .signature = *signature};
}

std::string CheckpointFile(const std::string& audit_path) { return audit_path + ".checkpoints"; }

}  // namespace lithify::observe
