#include "rewrite/schema_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lithify::rewrite {
namespace {

using parquet::LogicalType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::GroupNode;
using parquet::schema::Node;
using parquet::schema::NodePtr;
using parquet::schema::PrimitiveNode;

constexpr int kFieldsMax = 100'000;
constexpr int kDecimalBytesMax = 64;

std::string Dotted(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : parent + "." + name;
}

// ---------------------------------------------------------------------------------- parsing

class Parser {
 public:
  explicit Parser(const parquet::SchemaDescriptor& schema) : schema_(schema) {}

  Result<std::unique_ptr<SchemaNode>> Root() {
    const GroupNode* group = schema_.group_node();
    auto root = std::make_unique<SchemaNode>();
    root->kind = SchemaNode::Kind::kStruct;
    root->name = "schema";
    root->required = true;
    root->logical = LogicalType::None();
    for (int i = 0; i < group->field_count(); ++i) {
      LITHIFY_TRY_ASSIGN(auto child, Field(*group->field(i), "", 1));
      root->children.push_back(std::move(child));
    }
    return root;
  }

 private:
  // A field as its parent lists it; a bare repeated field is a required list of required values.
  Result<std::unique_ptr<SchemaNode>> Field(const Node& node, const std::string& parent,
                                            int depth) {
    const std::string path = Dotted(parent, node.name());
    if (depth > kSchemaDepthMax) {
      return Fail(Code::kUnsupported, "nested deeper than 64 levels", path);
    }
    if (node.repetition() != Repetition::REPEATED) return Single(node, path, depth);
    auto list = std::make_unique<SchemaNode>();
    list->kind = SchemaNode::Kind::kList;
    list->name = node.name();
    list->field_id = node.field_id();
    list->required = true;
    list->logical = LogicalType::List();
    LITHIFY_TRY_ASSIGN(auto element, Single(node, path, depth + 1));
    element->field_id = -1;
    element->required = true;
    list->children.push_back(std::move(element));
    return list;
  }

  // The node itself, its own repetition taken as optional or required (repeated: required).
  Result<std::unique_ptr<SchemaNode>> Single(const Node& node, const std::string& path, int depth) {
    auto out = std::make_unique<SchemaNode>();
    out->name = node.name();
    out->field_id = node.field_id();
    out->required = node.repetition() != Repetition::OPTIONAL;
    out->logical = node.logical_type() ? node.logical_type() : LogicalType::None();
    if (out->logical->is_invalid()) {
      return Fail(Code::kUnsupported, "has a logical type that this version does not know", path);
    }
    if (node.is_primitive()) {
      const auto& leaf = static_cast<const PrimitiveNode&>(node);
      out->physical = leaf.physical_type();
      out->type_length =
          leaf.physical_type() == Type::FIXED_LEN_BYTE_ARRAY ? leaf.type_length() : -1;
      out->leaf_index = schema_.ColumnIndex(node);
      if (out->logical->is_null() && out->required) {
        return Fail(Code::kUnsupported, "is required and annotated as always null", path);
      }
      return out;
    }
    const auto& group = static_cast<const GroupNode&>(node);
    if (group.field_count() == 0) return Fail(Code::kUnsupported, "a group without fields", path);
    if (out->logical->is_list()) return List(group, std::move(out), path, depth);
    if (out->logical->is_map()) return Map(group, std::move(out), path, depth);
    out->kind = SchemaNode::Kind::kStruct;
    for (int i = 0; i < group.field_count(); ++i) {
      LITHIFY_TRY_ASSIGN(auto child, Field(*group.field(i), path, depth + 1));
      out->children.push_back(std::move(child));
    }
    return out;
  }

  // The backward-compatibility rules of the Parquet format's LogicalTypes, "Lists".
  static bool RepeatedIsElement(const GroupNode& list, const Node& repeated) {
    if (repeated.is_primitive()) return true;
    const auto& group = static_cast<const GroupNode&>(repeated);
    if (group.field_count() != 1) return true;
    if (group.field(0)->repetition() == Repetition::REPEATED) return true;
    if (group.logical_type() && (group.logical_type()->is_list() || group.logical_type()->is_map()))
      return true;
    return group.name() == "array" || group.name() == list.name() + "_tuple";
  }

  Result<std::unique_ptr<SchemaNode>> List(const GroupNode& group, std::unique_ptr<SchemaNode> out,
                                           const std::string& path, int depth) {
    if (group.field_count() != 1 || group.field(0)->repetition() != Repetition::REPEATED) {
      return Fail(Code::kUnsupported, "a LIST whose only child is not a repeated field", path);
    }
    out->kind = SchemaNode::Kind::kList;
    const Node& repeated = *group.field(0);
    const std::string inner = Dotted(path, repeated.name());
    std::unique_ptr<SchemaNode> element;
    if (RepeatedIsElement(group, repeated)) {
      LITHIFY_TRY_ASSIGN(element, Single(repeated, inner, depth + 1));
      element->required = true;
    } else {
      LITHIFY_TRY_ASSIGN(
          element, Single(*static_cast<const GroupNode&>(repeated).field(0), inner, depth + 1));
    }
    out->children.push_back(std::move(element));
    return out;
  }

  Result<std::unique_ptr<SchemaNode>> Map(const GroupNode& group, std::unique_ptr<SchemaNode> out,
                                          const std::string& path, int depth) {
    if (group.field_count() != 1 || group.field(0)->repetition() != Repetition::REPEATED ||
        !group.field(0)->is_group() ||
        static_cast<const GroupNode&>(*group.field(0)).field_count() != 2) {
      return Fail(Code::kUnsupported, "a MAP that is not a repeated group of key and value", path);
    }
    out->kind = SchemaNode::Kind::kMap;
    const auto& entry = static_cast<const GroupNode&>(*group.field(0));
    const std::string inner = Dotted(path, entry.name());
    for (int i = 0; i < 2; ++i) {
      LITHIFY_TRY_ASSIGN(auto child, Field(*entry.field(i), inner, depth + 1));
      out->children.push_back(std::move(child));
    }
    return out;
  }

  const parquet::SchemaDescriptor& schema_;
};

// ------------------------------------------------------------------------------------ union

bool SameType(const SchemaNode& a, const SchemaNode& b) {
  return a.physical == b.physical && a.type_length == b.type_length &&
         a.logical->Equals(*b.logical);
}

void TakeType(SchemaNode& out, const SchemaNode& from) {
  out.physical = from.physical;
  out.type_length = from.type_length;
  out.logical = from.logical;
}

// Widens `out` so that it holds every value of `in` exactly; false if there is no safe way.
bool WidenDecimal(SchemaNode& out, const SchemaNode& in) {
  const auto& a = static_cast<const parquet::DecimalLogicalType&>(*out.logical);
  const auto& b = static_cast<const parquet::DecimalLogicalType&>(*in.logical);
  if (a.scale() != b.scale()) return false;
  if (out.physical == Type::BYTE_ARRAY || in.physical == Type::BYTE_ARRAY) {
    if (out.physical != in.physical) return false;
  } else if (out.physical == Type::FIXED_LEN_BYTE_ARRAY ||
             in.physical == Type::FIXED_LEN_BYTE_ARRAY) {
    const auto width = [](const SchemaNode& n) {
      return n.physical == Type::INT32 ? 4 : n.physical == Type::INT64 ? 8 : n.type_length;
    };
    out.type_length = std::max(width(out), width(in));
    if (out.type_length > kDecimalBytesMax) return false;
    out.physical = Type::FIXED_LEN_BYTE_ARRAY;
  } else if (in.physical == Type::INT64) {
    out.physical = Type::INT64;
  }
  out.logical = LogicalType::Decimal(std::max(a.precision(), b.precision()), a.scale());
  return true;
}

bool WidenLeaf(SchemaNode& out, const SchemaNode& in) {
  if (SameType(out, in)) return true;
  if (out.null_type() && in.null_type()) return true;
  if (const auto a = AsInt(out), b = AsInt(in); a && b) {
    if (a->is_signed != b->is_signed) return false;
    if (b->bits > a->bits || (b->bits == a->bits && in.logical->is_none())) TakeType(out, in);
    return true;
  }
  if (out.logical->is_none() && in.logical->is_none()) {
    if (out.physical == Type::FLOAT && in.physical == Type::DOUBLE) {
      TakeType(out, in);
      return true;
    }
    return out.physical == Type::DOUBLE && in.physical == Type::FLOAT;
  }
  if (out.logical->is_decimal() && in.logical->is_decimal()) return WidenDecimal(out, in);
  const auto a = TimestampUnit(out);
  const auto b = TimestampUnit(in);
  if (a && b) {
    const auto utc = [](const SchemaNode& n) {
      return static_cast<const parquet::TimestampLogicalType&>(*n.logical).is_adjusted_to_utc();
    };
    if (utc(out) != utc(in)) return false;
    if (*b < *a) TakeType(out, in);
    return true;
  }
  return false;
}

class Uniter {
 public:
  Uniter(std::vector<std::string>* notes, bool fold_case) : notes_(notes), fold_case_(fold_case) {}

  Result<std::unique_ptr<SchemaNode>> Unite(std::vector<const SchemaNode*> inputs, bool missing,
                                            const std::string& path) {
    // A column that is all null without a type takes the type that another file knows (P5).
    const bool all_null = std::ranges::all_of(inputs, [](auto* n) { return n->null_type(); });
    if (!all_null && std::erase_if(inputs, [](auto* n) { return n->null_type(); }) > 0) {
      missing = true;
    }
    const SchemaNode& first = *inputs.front();
    auto out = std::make_unique<SchemaNode>();
    out->kind = first.kind;
    out->name = inputs.back()->name;
    out->field_id = first.field_id;
    out->required = !missing;
    out->logical = first.logical;
    TakeType(*out, first);
    for (const SchemaNode* in : inputs) {
      LITHIFY_TRY(UniteOne(*out, *in, path));
    }
    if (out->kind == SchemaNode::Kind::kLeaf) {
      out->leaf_index = next_leaf_++;
      return out;
    }
    if (out->kind == SchemaNode::Kind::kStruct) {
      // The fields of a shredded variant explain each other: they are not columns of their own
      // (P26).
      if (first.logical->is_variant() &&
          !std::ranges::all_of(inputs, [&](auto* n) { return n->SameAs(first, false); })) {
        return Fail(Code::kUnsupported, "is a variant that is shredded differently in the files",
                    path, "rewrite the files with one shredding");
      }
      LITHIFY_TRY(UniteFields(*out, inputs, path));
      return out;
    }
    for (size_t i = 0; i < first.children.size(); ++i) {
      std::vector<const SchemaNode*> same;
      for (const SchemaNode* in : inputs) same.push_back(in->children[i].get());
      const std::string name = out->kind == SchemaNode::Kind::kList ? "list.element"
                               : i == 0                             ? "key_value.key"
                                                                    : "key_value.value";
      const bool some_required = std::ranges::any_of(same, [](auto* n) { return n->required; });
      LITHIFY_TRY_ASSIGN(auto child, Unite(std::move(same), false, Dotted(path, name)));
      if (out->kind == SchemaNode::Kind::kMap && i == 0 && some_required && !child->required) {
        // Arrow does not read maps with optional keys: the rows of the other files would be lost to
        // it.
        return Fail(Code::kUnsupported,
                    "has optional keys in one file and required ones in another", path,
                    "rewrite the odd file with required keys");
      }
      out->children.push_back(std::move(child));
    }
    return out;
  }

 private:
  Status UniteOne(SchemaNode& out, const SchemaNode& in, const std::string& path) {
    if (in.kind != out.kind) {
      return Fail(Code::kUnsupported, "has different shapes in different files", path,
                  "rewrite the odd file with the schema of the others");
    }
    if (in.field_id != out.field_id) {
      if (in.field_id >= 0 && out.field_id >= 0) {
        return Fail(Code::kUnsupported,
                    "has field id " + std::to_string(out.field_id) + " in one file and " +
                        std::to_string(in.field_id) + " in another",
                    path);
      }
      out.field_id = std::max(in.field_id, out.field_id);
    }
    out.required = out.required && in.required;
    if (in.kind != SchemaNode::Kind::kLeaf) {
      if (in.kind == SchemaNode::Kind::kStruct && !in.logical->Equals(*out.logical)) {
        return Fail(Code::kUnsupported, "is annotated differently in different files", path);
      }
      return {};
    }
    const std::string before = TypeText(out);
    if (!WidenLeaf(out, in)) {
      return Fail(Code::kUnsupported,
                  "is " + before + " in one file and " + TypeText(in) +
                      " in another, which has no safe common type",
                  path, "rewrite the odd file with the type of the others");
    }
    if (!MeanTheSame(in, out) && notes_ != nullptr) {
      notes_->push_back("column " + path + " widened from " + TypeText(in) + " to " +
                        TypeText(out));
    }
    return {};
  }

  // Also where the annotation says what goes without saying.
  static bool MeanTheSame(const SchemaNode& a, const SchemaNode& b) {
    const auto left = AsInt(a);
    const auto right = AsInt(b);
    if (!left || !right) return SameType(a, b);
    return a.physical == b.physical && left->bits == right->bits &&
           left->is_signed == right->is_signed;
  }

  static bool HasDistinctIds(const SchemaNode* in) {
    std::set<int> ids;
    return std::ranges::all_of(in->children, [&](const auto& child) {
      return child->field_id >= 0 && ids.insert(child->field_id).second;
    });
  }

  struct Group {
    std::vector<const SchemaNode*> nodes;
    bool missing = false;
  };

  static std::string Folded(std::string name) {
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    return name;
  }

  Status UniteFields(SchemaNode& out, const std::vector<const SchemaNode*>& inputs,
                     const std::string& path) {
    // Some writers give every field the id 0: ids count only where they tell fields apart.
    out.children_by_id = std::ranges::all_of(inputs, HasDistinctIds);
    std::vector<std::string> order;
    std::map<std::string, Group> groups;
    for (const SchemaNode* in : inputs) {
      std::set<std::string> seen;
      for (const auto& child : in->children) {
        const std::string key = out.children_by_id ? std::to_string(child->field_id) : child->name;
        if (!seen.insert(key).second) {
          return Fail(Code::kUnsupported,
                      out.children_by_id ? "two columns have field id " + key
                                         : "two columns have the name " + key,
                      path, "rename one of them; merging would have to guess");
        }
        auto [it, is_new] = groups.try_emplace(key);
        if (is_new) order.push_back(key);
        it->second.nodes.push_back(child.get());
      }
    }
    if (order.size() > kFieldsMax) return Fail(Code::kUnsupported, "over 100,000 columns", path);
    std::map<std::string, std::string> folded;
    for (const std::string& key : order) {
      Group& group = groups[key];
      const std::string name = group.nodes.back()->name;
      for (const SchemaNode* node : group.nodes) {
        if (node->name == name) continue;
        // Readers of plain files go by name: under a common name, values would move to another
        // column for them. Only a table's schema could say that it was a renaming.
        return Fail(Code::kUnsupported,
                    "field id " + key + " is column " + node->name + " in one file and " + name +
                        " in another",
                    path, "rewrite the older files with the new name");
      }
      const bool missing = group.nodes.size() < inputs.size();
      LITHIFY_TRY_ASSIGN(auto child, Unite(std::move(group.nodes), missing, Dotted(path, name)));
      // After the union: only it decides between the names that one field id had.
      const std::string folded_name = fold_case_ ? Folded(child->name) : child->name;
      if (auto [it, is_new] = folded.try_emplace(folded_name, child->name); !is_new) {
        return Fail(Code::kUnsupported,
                    "columns " + it->second + " and " + child->name + " differ in nothing but case",
                    path, "rename one of them; some readers would take them for one");
      }
      out.children.push_back(std::move(child));
    }
    return {};
  }

  std::vector<std::string>* notes_;
  const bool fold_case_;
  int next_leaf_ = 0;
};

// ----------------------------------------------------------------------------------- output

NodePtr FieldToParquet(const SchemaNode& node, const std::string& name) {
  const auto repetition = node.required ? Repetition::REQUIRED : Repetition::OPTIONAL;
  switch (node.kind) {
    case SchemaNode::Kind::kLeaf:
      return PrimitiveNode::Make(name, repetition, node.logical, node.physical, node.type_length,
                                 node.field_id);
    case SchemaNode::Kind::kStruct: {
      parquet::schema::NodeVector fields;
      for (const auto& child : node.children) fields.push_back(FieldToParquet(*child, child->name));
      return GroupNode::Make(name, repetition, fields,
                             node.logical->is_none() ? nullptr : node.logical, node.field_id);
    }
    case SchemaNode::Kind::kList: {
      const NodePtr repeated = GroupNode::Make("list", Repetition::REPEATED,
                                               {FieldToParquet(*node.children[0], "element")});
      return GroupNode::Make(name, repetition, {repeated}, LogicalType::List(), node.field_id);
    }
    case SchemaNode::Kind::kMap: {
      const NodePtr repeated = GroupNode::Make(
          "key_value", Repetition::REPEATED,
          {FieldToParquet(*node.children[0], "key"), FieldToParquet(*node.children[1], "value")});
      return GroupNode::Make(name, repetition, {repeated}, LogicalType::Map(), node.field_id);
    }
  }
  return nullptr;
}

void CollectLeaves(const SchemaNode& node, const std::string& path, int16_t def, int16_t rep,
                   std::vector<OutputLeaf>& leaves) {
  if (!node.required) ++def;
  switch (node.kind) {
    case SchemaNode::Kind::kLeaf:
      leaves.push_back(OutputLeaf{path, node.physical, node.type_length, def, rep});
      return;
    case SchemaNode::Kind::kStruct:
      for (const auto& child : node.children)
        CollectLeaves(*child, Dotted(path, child->name), def, rep, leaves);
      return;
    case SchemaNode::Kind::kList:
      CollectLeaves(*node.children[0], path + ".list.element", static_cast<int16_t>(def + 1),
                    static_cast<int16_t>(rep + 1), leaves);
      return;
    case SchemaNode::Kind::kMap:
      CollectLeaves(*node.children[0], path + ".key_value.key", static_cast<int16_t>(def + 1),
                    static_cast<int16_t>(rep + 1), leaves);
      CollectLeaves(*node.children[1], path + ".key_value.value", static_cast<int16_t>(def + 1),
                    static_cast<int16_t>(rep + 1), leaves);
      return;
  }
}

}  // namespace

std::string TypeText(const SchemaNode& node) {
  std::string text = parquet::TypeToString(node.physical, node.type_length);
  if (!node.logical->is_none()) text += " (" + node.logical->ToString() + ")";
  return text;
}

std::optional<IntType> AsInt(const SchemaNode& node) {
  if (node.physical != Type::INT32 && node.physical != Type::INT64) return std::nullopt;
  if (node.logical->is_none()) return IntType{node.physical == Type::INT32 ? 32 : 64, true};
  if (!node.logical->is_int()) return std::nullopt;
  const auto& type = static_cast<const parquet::IntLogicalType&>(*node.logical);
  return IntType{type.bit_width(), type.is_signed()};
}

std::optional<int64_t> TimestampUnit(const SchemaNode& node) {
  if (node.physical != Type::INT64 || !node.logical->is_timestamp()) return std::nullopt;
  switch (static_cast<const parquet::TimestampLogicalType&>(*node.logical).time_unit()) {
    case LogicalType::TimeUnit::MILLIS: return 1'000'000;
    case LogicalType::TimeUnit::MICROS: return 1'000;
    case LogicalType::TimeUnit::NANOS: return 1;
    default: return std::nullopt;
  }
}

bool SchemaNode::SameAs(const SchemaNode& other, bool with_required) const {
  if (kind != other.kind || name != other.name || field_id != other.field_id ||
      (with_required && required != other.required) || children.size() != other.children.size()) {
    return false;
  }
  if (kind == Kind::kLeaf && !SameType(*this, other)) return false;
  for (size_t i = 0; i < children.size(); ++i) {
    if (!children[i]->SameAs(*other.children[i], true)) return false;
  }
  return true;
}

Result<std::unique_ptr<SchemaNode>> ParseSchema(const parquet::SchemaDescriptor& schema) {
  return Parser(schema).Root();
}

Result<std::unique_ptr<SchemaNode>> UniteSchemas(const std::vector<const SchemaNode*>& inputs,
                                                 std::vector<std::string>* notes, bool fold_case) {
  LITHIFY_CHECK(!inputs.empty(), "a union of no schemas");
  return Uniter(notes, fold_case).Unite(inputs, false, "");
}

std::shared_ptr<GroupNode> ToParquet(const SchemaNode& root) {
  parquet::schema::NodeVector fields;
  for (const auto& child : root.children) fields.push_back(FieldToParquet(*child, child->name));
  return std::static_pointer_cast<GroupNode>(
      GroupNode::Make("schema", Repetition::REQUIRED, fields));
}

std::vector<OutputLeaf> OutputLeaves(const SchemaNode& output) {
  std::vector<OutputLeaf> leaves;
  for (const auto& child : output.children) CollectLeaves(*child, child->name, 0, 0, leaves);
  return leaves;
}

}  // namespace lithify::rewrite
