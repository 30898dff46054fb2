// Signed marks of how far an audit log went, in a file beside it: that its tail was cut off, or
// that all of it was made anew, is found by who has the public key. Ed25519, by OpenSSL.
//
// Line: {"seq","hash","time","key_id","signature"}: the record's number, its hash and its time; the
// key's id (the first 16 digits of SHA-256 of the public key in DER); and the signature, in hex, of
// "lithify audit checkpoint 1\n<seq>\n<hash>\n<time>\n<key_id>\n".
//
// Thread safety: values and constant members.
#ifndef LITHIFY_OBSERVE_AUDIT_CHECKPOINT_H_
#define LITHIFY_OBSERVE_AUDIT_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::observe {

struct AuditCheckpoint {
  uint64_t seq = 0;
  std::string hash;
  Time time;
  std::string key_id;
  std::string signature;
  bool operator==(const AuditCheckpoint&) const = default;
};

class AuditSigner {
 public:
  // A PEM file with a private Ed25519 key, as `openssl genpkey -algorithm ed25519` makes it; not
  // encrypted. kInvalid, kNotFound or kDenied.
  static Result<std::shared_ptr<const AuditSigner>> Load(const std::string& path);
  ~AuditSigner();
  AuditSigner(const AuditSigner&) = delete;
  AuditSigner& operator=(const AuditSigner&) = delete;

  const std::string& key_id() const { return key_id_; }
  AuditCheckpoint Sign(uint64_t seq, std::string hash, Time time) const;

 private:
  struct Key;
  explicit AuditSigner(std::unique_ptr<Key> key);

  std::unique_ptr<Key> key_;
  std::string key_id_;
};

class AuditPublicKey {
 public:
  // A PEM file with a public Ed25519 key, as `openssl pkey -pubout` makes it. kInvalid, kNotFound
  // or kDenied.
  static Result<std::shared_ptr<const AuditPublicKey>> Load(const std::string& path);
  ~AuditPublicKey();
  AuditPublicKey(const AuditPublicKey&) = delete;
  AuditPublicKey& operator=(const AuditPublicKey&) = delete;

  const std::string& key_id() const { return key_id_; }
  // Whether the owner of the key signed it. One of another key's id is not.
  bool Signed(const AuditCheckpoint& checkpoint) const;

 private:
  struct Key;
  explicit AuditPublicKey(std::unique_ptr<Key> key);

  std::unique_ptr<Key> key_;
  std::string key_id_;
};

// Without its newline.
std::string CheckpointLine(const AuditCheckpoint& checkpoint);
Result<AuditCheckpoint> ParseCheckpointLine(std::string_view line);  // kCorrupt.

// "<path>.checkpoints".
std::string CheckpointFile(const std::string& audit_path);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_AUDIT_CHECKPOINT_H_
