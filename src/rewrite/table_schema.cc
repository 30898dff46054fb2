#include "rewrite/table_schema.h"

#include <algorithm>
#include <set>
#include <utility>

#include "rewrite/table_types.h"

namespace lithify::rewrite {
namespace {

using iceberg::Field;
using iceberg::NameMapping;
using iceberg::TypeKind;
using Kind = SchemaNode::Kind;

std::string Dotted(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : parent + "." + name;
}

bool HasIds(const SchemaNode& node) {
  return node.field_id >= 0 ||
         std::ranges::any_of(node.children, [](const auto& child) { return HasIds(*child); });
}

// The one element of a list, or key and value of a map, are known without an id of their own; the
// parts of a variant have none.
Status CheckIds(const SchemaNode& node, const std::string& path) {
  if (node.logical->is_variant()) return {};
  std::set<int> seen;
  for (const auto& child : node.children) {
    const std::string where = Dotted(path, child->name);
    if (node.kind == Kind::kStruct) {
      if (child->field_id < 0) {
        return Fail(Code::kUnsupported, "has no field id, while other columns of the file have one",
                    where, "rewrite the file with the engine that owns the table");
      }
      if (!seen.insert(child->field_id).second) {
        return Fail(Code::kUnsupported,
                    "two columns have field id " + std::to_string(child->field_id), where,
                    "rewrite the file with the engine that owns the table");
      }
    }
    LITHIFY_TRY(CheckIds(*child, where));
  }
  return {};
}

const NameMapping* FindName(const std::vector<NameMapping>& mapping, const std::string& name) {
  for (const NameMapping& entry : mapping) {
    if (std::ranges::find(entry.names, name) != entry.names.end()) return &entry;
  }
  return nullptr;
}

Status ApplyMapping(SchemaNode& node, const std::vector<NameMapping>& mapping,
                    const std::set<int>& hidden, const std::string& path) {
  static const std::vector<NameMapping> kNone;
  std::set<int> seen;
  for (size_t i = 0; i < node.children.size(); ++i) {
    SchemaNode& child = *node.children[i];
    // In mappings the parts of lists and maps go by their standard names.
    const std::string name = node.kind == Kind::kStruct ? child.name
                             : node.kind == Kind::kList ? "element"
                             : i == 0                   ? "key"
                                                        : "value";
    const NameMapping* entry = FindName(mapping, name);
    if (entry != nullptr && entry->field_id && !hidden.contains(*entry->field_id)) {
      child.field_id = *entry->field_id;
      if (!seen.insert(child.field_id).second) {
        return Fail(
            Code::kUnsupported,
            "the table's name mapping gives two columns field id " + std::to_string(child.field_id),
            Dotted(path, name), "correct schema.name-mapping.default");
      }
    }
    LITHIFY_TRY(
        ApplyMapping(child, entry == nullptr ? kNone : entry->fields, hidden, Dotted(path, name)));
  }
  return {};
}

class TargetBuilder {
 public:
  explicit TargetBuilder(std::vector<TableInput>& inputs) : inputs_(inputs) {}

  Result<std::unique_ptr<SchemaNode>> Root(const iceberg::Schema& schema) {
    auto root = std::make_unique<SchemaNode>();
    root->kind = Kind::kStruct;
    root->name = "schema";
    root->required = true;
    root->logical = parquet::LogicalType::None();
    std::vector<Source> parents;
    for (size_t i = 0; i < inputs_.size(); ++i) parents.push_back(Source{inputs_[i].schema, i});
    LITHIFY_TRY(Fields(*root, schema.fields, parents, "", 0));
    return root;
  }

 private:
  // A field in one input whose parent is there; null if the input lacks the field.
  struct Source {
    const SchemaNode* node;
    size_t input;
    bool is_null_type() const { return node != nullptr && node->null_type(); }
    bool has_field() const { return node != nullptr && !node->null_type(); }
  };

  // Searches on from `at`, where the last one was found: most files list their columns alike.
  static const SchemaNode* Child(const SchemaNode& parent, int field_id, size_t& at) {
    for (size_t i = 0; i < parent.children.size(); ++i, ++at) {
      if (at >= parent.children.size()) at = 0;
      if (parent.children[at]->field_id == field_id) return parent.children[at].get();
    }
    return nullptr;
  }

  const std::string& KeyOf(const Source& source) const { return inputs_[source.input].file->key; }

  static const iceberg::Value* ConstantOf(const InputFile& file, int field_id) {
    for (const auto& [id, value] : file.constants) {
      if (id == field_id) return &value;
    }
    return nullptr;
  }

  // What a file that lacks the field has in its place; null: nothing but null.
  static const iceberg::Value* StandIn(const InputFile& file, const Field& field) {
    const iceberg::Value* value = ConstantOf(file, field.id);
    if (value == nullptr && field.initial_default) value = &*field.initial_default;
    return value == nullptr || IsNull(*value) ? nullptr : value;
  }

  static bool HasConstantBelow(const InputFile& file, const Field& field) {
    return std::ranges::any_of(field.type.fields, [&](const Field& child) {
      const iceberg::Value* value = ConstantOf(file, child.id);
      return (value != nullptr && !IsNull(*value)) || HasConstantBelow(file, child);
    });
  }

  // The fields of a struct that some input has, or has a value for; all of them where that leaves
  // none, since a group needs a field to say that it is there.
  Status Fields(SchemaNode& out, const std::vector<Field>& fields,
                const std::vector<Source>& parents, const std::string& path, int depth) {
    out.children_by_id = true;
    std::set<std::string> names;
    std::vector<size_t> places(parents.size(), 0);
    for (const bool all : {false, true}) {
      for (const Field& field : fields) {
        if (field.type.kind == TypeKind::kUnknown) continue;  // Not stored [Appendix A, Parquet].
        bool wanted = all;
        std::vector<Source> sources;
        for (size_t i = 0; i < parents.size(); ++i) {
          const Source& parent = parents[i];
          const SchemaNode* node = Child(*parent.node, field.id, places[i]);
          sources.push_back(Source{node, parent.input});
          const InputFile& file = *inputs_[parent.input].file;
          wanted = wanted || node != nullptr || StandIn(file, field) != nullptr ||
                   HasConstantBelow(file, field);
        }
        if (!wanted) continue;
        if (!names.insert(field.name).second) {
          return Fail(Code::kUnsupported, "two columns of the table have the name " + field.name,
                      path, "rename one of them");
        }
        LITHIFY_TRY_ASSIGN(auto child, Node(field, sources, Dotted(path, field.name), depth + 1));
        out.children.push_back(std::move(child));
      }
      if (!out.children.empty()) return {};
    }
    return Fail(Code::kUnsupported, "the table has no column here that files store", path);
  }

  Result<std::unique_ptr<SchemaNode>> Node(const Field& field, const std::vector<Source>& sources,
                                           const std::string& path, int depth) {
    if (depth > kSchemaDepthMax) {
      return Fail(Code::kUnsupported, "nested deeper than 64 levels", path);
    }
    auto out = std::make_unique<SchemaNode>();
    out->name = field.name;
    out->field_id = field.id;
    out->required = field.required;
    out->logical = parquet::LogicalType::None();
    switch (field.type.kind) {
      case TypeKind::kVariant: return Variant(std::move(out), field, sources, path);
      case TypeKind::kStruct: out->kind = Kind::kStruct; break;
      case TypeKind::kList: out->kind = Kind::kList; break;
      case TypeKind::kMap: out->kind = Kind::kMap; break;
      default: {
        auto typed = SetLeafType(field.type, *out);
        if (!typed) return Fail(std::move(typed.error()).In("column " + path));
      }
    }
    for (const Source& source : sources) {
      LITHIFY_TRY(AddSource(*out, field, source, path));
    }
    if (field.type.kind == TypeKind::kGeometry || field.type.kind == TypeKind::kGeography) {
      LITHIFY_TRY(KeepGeoAnnotation(*out, sources, path));
    }
    if (out->kind == Kind::kLeaf) {
      out->leaf_index = next_leaf_++;
      return out;
    }
    std::vector<Source> parents;
    std::ranges::copy_if(sources, std::back_inserter(parents), &Source::has_field);
    if (out->kind == Kind::kStruct) {
      LITHIFY_TRY(Fields(*out, field.type.fields, parents, path, depth));
      return out;
    }
    LITHIFY_TRY(Parts(*out, field, parents, path, depth));
    return out;
  }

  static Status KeepGeoAnnotation(SchemaNode& out, const std::vector<Source>& sources,
                                  const std::string& path) {
    bool first = true;
    for (const Source& source : sources) {
      if (!source.has_field() || source.node->logical->is_none()) continue;
      if (!TakeGeoAnnotation(*source.node, first, out)) {
        return Fail(Code::kUnsupported,
                    "has other coordinates or edges in one file than in another: " +
                        TypeText(*source.node) + " and " + TypeText(out),
                    "column " + path, "rewrite the odd file with the engine that owns the table");
      }
      first = false;
    }
    return {};
  }

  // The parts of a variant have no ids and explain each other, so they go as they are, and only
  // where all files have the same (Parquet, VariantEncoding and VariantShredding; P26).
  Result<std::unique_ptr<SchemaNode>> Variant(std::unique_ptr<SchemaNode> out, const Field& field,
                                              const std::vector<Source>& sources,
                                              const std::string& path) {
    out->kind = Kind::kStruct;
    const SchemaNode* first = nullptr;
    for (const Source& source : sources) {
      if (!source.has_field()) {
        LITHIFY_TRY(AddSource(*out, field, source, path));
        continue;
      }
      const SchemaNode& node = *source.node;
      const std::string where = KeyOf(source) + ": column " + path;
      if (node.kind != Kind::kStruct || !node.logical->is_variant()) {
        return Fail(Code::kUnsupported, "is not annotated as a variant in the file", where,
                    "rewrite the file with the engine that owns the table");
      }
      out->required = out->required && node.required;
      if (first == nullptr) first = &node;
      if (!SameParts(*first, node) || !first->logical->Equals(*node.logical)) {
        return Fail(Code::kUnsupported, "is a variant that is shredded differently in the files",
                    where, "rewrite the files with one shredding");
      }
    }
    if (first == nullptr) {
      return Fail(Code::kUnsupported, "no file tells how its variants are stored",
                  "column " + path);
    }
    out->logical = first->logical;
    for (const auto& part : first->children) out->children.push_back(Copy(*part));
    return out;
  }

  static bool SameParts(const SchemaNode& a, const SchemaNode& b) {
    return std::ranges::equal(a.children, b.children,
                              [](const auto& x, const auto& y) { return x->SameAs(*y); });
  }

  std::unique_ptr<SchemaNode> Copy(const SchemaNode& from) {
    auto out = std::make_unique<SchemaNode>();
    out->kind = from.kind;
    out->name = from.name;
    out->field_id = from.field_id;
    out->required = from.required;
    out->logical = from.logical;
    out->physical = from.physical;
    out->type_length = from.type_length;
    if (from.kind == Kind::kLeaf) out->leaf_index = next_leaf_++;
    for (const auto& child : from.children) out->children.push_back(Copy(*child));
    return out;
  }

  // The element of a list, or key and value of a map.
  Status Parts(SchemaNode& out, const Field& field, const std::vector<Source>& parents,
               const std::string& path, int depth) {
    const size_t parts = out.kind == Kind::kList ? 1 : 2;
    if (field.type.fields.size() != parts) {
      return Fail(Code::kInternal, "a list or map without its parts", path);
    }
    out.logical =
        out.kind == Kind::kList ? parquet::LogicalType::List() : parquet::LogicalType::Map();
    for (size_t i = 0; i < parts; ++i) {
      const Field& part = field.type.fields[i];
      const std::string where = Dotted(path, part.name);
      std::vector<Source> sources;
      for (const Source& parent : parents) {
        const SchemaNode* node = parent.node->children[i].get();
        if (node->field_id >= 0 && node->field_id != part.id) {
          return Fail(Code::kUnsupported,
                      "has field id " + std::to_string(node->field_id) + " in the file and " +
                          std::to_string(part.id) + " in the table",
                      KeyOf(parent) + ": column " + where);
        }
        if (parts == 2 && i == 0 && !node->required) {
          return Fail(Code::kUnsupported, "has map keys that may be null, which no table has",
                      KeyOf(parent) + ": column " + where, "rewrite the file with required keys");
        }
        sources.push_back(Source{node, parent.input});
      }
      LITHIFY_TRY_ASSIGN(auto child, Node(part, sources, where, depth + 1));
      out.children.push_back(std::move(child));
    }
    return {};
  }

  // Takes into account what one input has, or has not, of the field.
  Status AddSource(SchemaNode& out, const Field& field, const Source& source,
                   const std::string& path) {
    const std::string where = KeyOf(source) + ": column " + path;
    if (source.has_field()) {
      const SchemaNode& node = *source.node;
      out.required = out.required && node.required;
      if (node.kind == out.kind && (node.kind != Kind::kLeaf || LeafIsReadAs(node, field.type)) &&
          !(node.kind == Kind::kStruct && node.logical->is_variant())) {
        return {};
      }
      return Fail(Code::kUnsupported,
                  "is " + (node.kind == Kind::kLeaf ? TypeText(node) : "nested otherwise") +
                      " in the file, which the table's type " + IcebergTypeText(field.type) +
                      " does not read",
                  where, "rewrite the file with the engine that owns the table");
    }
    const InputFile& file = *inputs_[source.input].file;
    const iceberg::Value* value = source.is_null_type() ? nullptr : StandIn(file, field);
    if (out.kind == Kind::kLeaf && value != nullptr) {
      auto encoded = EncodeConstant(*value, out);
      if (!encoded) return Fail(std::move(encoded.error()).In(where));
      inputs_[source.input].fills[field.id] = std::move(*encoded);
      return {};
    }
    if (value != nullptr || HasConstantBelow(file, field) ||
        (field.unsupported_default && ConstantOf(file, field.id) == nullptr)) {
      return Fail(Code::kUnsupported,
                  "is missing in the file, and a default or partition value of a nested column "
                  "would have to stand in",
                  where, "rewrite the file with the engine that owns the table");
    }
    if (field.required) {
      return Fail(Code::kUnsupported,
                  "is required by the table and missing in the file, without a default", where,
                  "make the column optional, or give it a default");
    }
    return {};
  }

  std::vector<TableInput>& inputs_;
  int next_leaf_ = 0;
};

}  // namespace

Status ResolveFieldIds(SchemaNode& file, const std::vector<NameMapping>& mapping,
                       const std::vector<std::pair<int, iceberg::Value>>& constants) {
  if (HasIds(file)) return CheckIds(file, "");
  if (mapping.empty()) {
    return Fail(Code::kUnsupported,
                "the file has no field ids, and the table no schema.name-mapping.default", "",
                "set the property, as the engine that imported the file should have done");
  }
  std::set<int> hidden;
  for (const auto& [id, value] : constants) hidden.insert(id);
  return ApplyMapping(file, mapping, hidden, "");
}

Result<std::unique_ptr<SchemaNode>> MakeTargetSchema(const iceberg::Schema& schema,
                                                     std::vector<TableInput>& inputs) {
  return TargetBuilder(inputs).Root(schema);
}

}  // namespace lithify::rewrite
