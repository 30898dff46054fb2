// Small XML documents, as S3 answers with them, as a tree. No DTDs: what a server could do with
// entities nobody needs.
#ifndef LITHIFY_STORAGE_XML_H_
#define LITHIFY_STORAGE_XML_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lithify::storage {

struct XmlElement {
  std::string name;  // Without a namespace.
  std::string text;  // All text directly in it.
  std::vector<XmlElement> children;

  // The first child of that name; null: none.
  const XmlElement* Find(std::string_view child) const;
  // Its text; empty: none.
  std::string_view Text(std::string_view child) const;
};

// The root element. kCorrupt: not well formed, nested deeper than 32, or with a DTD.
Result<XmlElement> ParseXml(std::string_view document);

// "&", "<", ">", and quotes as entities; control characters as references.
std::string XmlEscape(std::string_view text);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_XML_H_
