#include "rewrite/leaf_map.h"

#include <utility>

namespace lithify::rewrite {
namespace {

using parquet::Type;

constexpr int64_t kNanosPerDay = 86'400'000'000'000;

bool ConvertDecimal(const SchemaNode& out, const SchemaNode& in, LeafSource& source) {
  if (in.physical == Type::FIXED_LEN_BYTE_ARRAY || in.physical == Type::BYTE_ARRAY) {
    source.conversion = Conversion::kBytesToDecimal;
    return out.physical != Type::BYTE_ARRAY;
  }
  const bool narrow = in.physical == Type::INT32;
  switch (out.physical) {
    case Type::INT32: source.conversion = Conversion::kInt64ToInt32; return true;
    case Type::INT64: source.conversion = Conversion::kInt32ToInt64; return true;
    case Type::FIXED_LEN_BYTE_ARRAY:
      source.conversion = narrow ? Conversion::kInt32ToFixed : Conversion::kInt64ToFixed;
      return true;
    default: return false;
  }
}

// How values of `in` become those of `out`, whose types are known to go together; false if there is
// no way.
bool Convert(const SchemaNode& out, const SchemaNode& in, LeafSource& source) {
  const auto unit = TimestampUnit(out);
  if (in.physical == out.physical && in.type_length == out.type_length) {
    if (const auto from = TimestampUnit(in); from && unit && *from != *unit) {
      source.conversion = Conversion::kScaleInt64;
      source.factor = *from / *unit;
      return source.factor > 0;
    }
    return true;
  }
  if (in.logical->is_decimal() && out.logical->is_decimal()) {
    return ConvertDecimal(out, in, source);
  }
  if (in.physical == Type::INT32 && out.physical == Type::INT64) {
    const auto type = AsInt(in);
    source.conversion =
        type && !type->is_signed ? Conversion::kUint32ToUint64 : Conversion::kInt32ToInt64;
    if (in.logical->is_date() && unit) {
      source.conversion = Conversion::kScaleInt32;
      source.factor = kNanosPerDay / *unit;
    } else if (in.logical->is_time()) {
      source.conversion = Conversion::kScaleInt32;
      source.factor = 1000;
    }
    return true;
  }
  if (in.physical == Type::INT96 && unit) {
    source.conversion = Conversion::kInt96ToInt64;
    source.factor = *unit;
    return true;
  }
  source.conversion = Conversion::kFloatToDouble;
  return in.physical == Type::FLOAT && out.physical == Type::DOUBLE;
}

const SchemaNode* Neighbour(const SchemaNode& node, int depth, int& best_depth) {
  if (node.kind == SchemaNode::Kind::kLeaf) {
    if (depth >= best_depth) return nullptr;
    best_depth = depth;
    return &node;
  }
  const bool repeated = node.kind != SchemaNode::Kind::kStruct;
  const SchemaNode* best = nullptr;
  for (const auto& child : node.children) {
    if (const auto* found = Neighbour(*child, depth + (repeated ? 1 : 0), best_depth)) {
      best = found;
    }
  }
  return best;
}

// One place on the way to a leaf where a definition level may be counted.
struct Step {
  bool in_input;
  bool in_output;
};

class Mapper {
 public:
  explicit Mapper(const std::map<int, std::string>& fills) : fills_(fills) {}

  Status Walk(const SchemaNode& out, const SchemaNode& in, std::vector<Step> steps, int16_t rep) {
    steps.push_back(Step{!in.required, !out.required});
    if (out.kind == SchemaNode::Kind::kLeaf) return Leaf(out, in, steps, rep);
    if (out.kind != SchemaNode::Kind::kStruct) {
      steps.push_back(Step{true, true});
      ++rep;
    }
    size_t at = 0;
    for (size_t i = 0; i < out.children.size(); ++i) {
      const SchemaNode& child = *out.children[i];
      const SchemaNode* match = out.kind != SchemaNode::Kind::kStruct
                                    ? in.children[i].get()
                                    : FindChild(in, child, out.children_by_id, at);
      if (match == nullptr) {
        LITHIFY_TRY(Missing(child, in, steps, rep, nullptr, child.kind == SchemaNode::Kind::kLeaf));
      } else if (match->null_type()) {
        LITHIFY_TRY(Missing(child, in, steps, rep, match, false));
      } else {
        LITHIFY_TRY(Walk(child, *match, steps, rep));
      }
    }
    return {};
  }

  std::vector<LeafSource> TakeSources() { return std::move(sources_); }

 private:
  // Searches on from where the last one was found: most files list their columns alike, and some
  // have thousands.
  static const SchemaNode* FindChild(const SchemaNode& in, const SchemaNode& child, bool by_id,
                                     size_t& at) {
    for (size_t i = 0; i < in.children.size(); ++i, ++at) {
      if (at >= in.children.size()) at = 0;
      const SchemaNode& candidate = *in.children[at];
      if (by_id ? candidate.field_id == child.field_id : candidate.name == child.name) {
        return &candidate;
      }
    }
    return nullptr;
  }

  static std::vector<int16_t> DefinitionMap(const std::vector<Step>& steps) {
    std::vector<int16_t> map;
    int16_t out = 0;
    for (const Step& step : steps) {
      // Input level map.size() means: undefined at this input step.
      if (step.in_input) map.push_back(out);
      if (step.in_output) ++out;
    }
    map.push_back(out);
    return map;
  }

  Status Leaf(const SchemaNode& out, const SchemaNode& in, const std::vector<Step>& steps,
              int16_t rep) {
    LeafSource source;
    source.input_leaf = in.leaf_index;
    source.repetition_max = rep;
    source.definition_map = DefinitionMap(steps);
    if (!Convert(out, in, source)) {
      return Fail(Code::kInternal, "no conversion from " + TypeText(in) + " to " + TypeText(out),
                  out.name);
    }
    sources_.push_back(std::move(source));
    return {};
  }

  static int DefinitionMax(const SchemaNode& node, const SchemaNode* leaf) {
    if (&node == leaf) return node.required ? 0 : 1;
    for (const auto& child : node.children) {
      if (const int below = DefinitionMax(*child, leaf); below >= 0) {
        return below + (node.required ? 0 : 1) + (node.kind == SchemaNode::Kind::kStruct ? 0 : 1);
      }
    }
    return -1;
  }

  // `null_leaf`: the input has the column, as one that is always null; its own levels tell the
  // shape. `fillable`: the column's parent is in the input, so that a value may stand in.
  Status Missing(const SchemaNode& out, const SchemaNode& parent, const std::vector<Step>& steps,
                 int16_t rep, const SchemaNode* null_leaf, bool fillable) {
    if (out.kind != SchemaNode::Kind::kLeaf) {
      for (const auto& child : out.children) {
        LITHIFY_TRY(Missing(*child, parent, steps, rep, null_leaf, false));
      }
      return {};
    }
    LeafSource source;
    source.levels_only = true;
    source.must_be_null = null_leaf != nullptr;
    source.repetition_max = rep;
    source.definition_map = DefinitionMap(steps);
    if (const auto fill = fills_.find(out.field_id); fillable && fill != fills_.end()) {
      source.fill = fill->second;
      if (!out.required) ++source.definition_map.back();
    }
    const bool top_level = steps.size() == 1;
    if (!top_level || null_leaf != nullptr) {
      const SchemaNode* leaf = null_leaf != nullptr ? null_leaf : CheapestLeaf(parent);
      if (leaf == nullptr) return Fail(Code::kInternal, "a group without leaves", out.name);
      source.input_leaf = leaf->leaf_index;
      // Below the common ancestor every level means: the ancestor is there.
      const int relative = DefinitionMax(parent, leaf) - (parent.required ? 0 : 1) -
                           (parent.kind == SchemaNode::Kind::kStruct ? 0 : 1);
      for (int i = 0; i < relative; ++i) {
        source.definition_map.push_back(source.definition_map.back());
      }
    }
    sources_.push_back(std::move(source));
    return {};
  }

  const std::map<int, std::string>& fills_;
  std::vector<LeafSource> sources_;
};

}  // namespace

const SchemaNode* CheapestLeaf(const SchemaNode& root) {
  int best_depth = kSchemaDepthMax + 1;
  return Neighbour(root, 0, best_depth);
}

Result<std::vector<LeafSource>> MapLeaves(const SchemaNode& output, const SchemaNode& input,
                                          const std::map<int, std::string>& fills) {
  Mapper mapper(fills);
  LITHIFY_TRY(mapper.Walk(output, input, {}, 0));
  return mapper.TakeSources();
}

}  // namespace lithify::rewrite
