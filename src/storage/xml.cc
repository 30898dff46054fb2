#include "storage/xml.h"

#include <expat.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace lithify::storage {
namespace {

constexpr size_t kDepthMax = 32;

// What expat calls while it reads; nothing here may throw through it.
struct Building {
  XML_Parser parser = nullptr;
  XmlElement root;
  std::vector<XmlElement*> open;
  std::string why;  // It was stopped.

  void Stop(const char* reason) {
    why = reason;
    XML_StopParser(parser, XML_FALSE);
  }
};

void OnStart(void* user, const XML_Char* name, const XML_Char** /*attributes*/) {
  auto& building = *static_cast<Building*>(user);
  if (building.open.size() >= kDepthMax) return building.Stop("nested too deeply");
  try {
    const std::string_view whole(name);
    XmlElement* element = &building.root;
    if (!building.open.empty()) element = &building.open.back()->children.emplace_back();
    // "namespace|name".
    element->name = whole.substr(whole.find('|') + 1);
    building.open.push_back(element);
  } catch (const std::bad_alloc&) {
    building.Stop("out of memory");
  }
}

void OnEnd(void* user, const XML_Char* /*name*/) { static_cast<Building*>(user)->open.pop_back(); }

void OnText(void* user, const XML_Char* text, int length) {
  auto& building = *static_cast<Building*>(user);
  try {
    building.open.back()->text.append(text, static_cast<size_t>(length));
  } catch (const std::bad_alloc&) {
    building.Stop("out of memory");
  }
}

void OnDoctype(void* user, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<Building*>(user)->Stop("a document type");
}

}  // namespace

const XmlElement* XmlElement::Find(std::string_view child) const {
  const auto found = std::ranges::find(children, child, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::Text(std::string_view child) const {
  const XmlElement* const found = Find(child);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<XmlElement> ParseXml(std::string_view document) {
  if (document.size() > size_t{std::numeric_limits<int>::max()}) {
    return Fail(Code::kCorrupt, "an XML document of more than 2 GiB");
  }
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
      XML_ParserCreateNS(nullptr, '|'), &XML_ParserFree);
  if (parser == nullptr) return Fail(Code::kLimit, "out of memory");
  Building building;
  building.parser = parser.get();
  building.open.reserve(kDepthMax);
  XML_SetUserData(parser.get(), &building);
  XML_SetElementHandler(parser.get(), OnStart, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnDoctype);
  const auto parsed =
      XML_Parse(parser.get(), document.data(), static_cast<int>(document.size()), XML_TRUE);
  if (parsed == XML_STATUS_OK) return std::move(building.root);
  const std::string why =
      building.why.empty() ? XML_ErrorString(XML_GetErrorCode(parser.get())) : building.why;
  return Fail(Code::kCorrupt, "no readable XML: " + why);
}

std::string XmlEscape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "&#" + std::to_string(static_cast<int>(c)) + ';';
        } else {
          out += c;
        }
    }
  }
  return out;
}

}  // namespace lithify::storage
