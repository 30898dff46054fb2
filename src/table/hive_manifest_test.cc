#include "table/hive_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "storage/memory_store.h"

namespace lithify::table {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;

Time At(const char* text) { return ParseTime(text).value(); }

HiveManifest Full() {
  HiveManifest manifest;
  manifest.generation = 7;
  manifest.files = {"a.parquet", "b.parquet"};
  manifest.has_lineage = true;
  manifest.job_id = "job-1";
  manifest.retired = {
      {"c.parquet", At("2026-11-29T08:00:00.000001Z"), RetiredFile::Reason::kSuperseded, "job-1"},
      {"d.parquet", At("2026-11-29T09:00:00Z"), RetiredFile::Reason::kFenced, "job-0"},
      {"e.parquet", At("2026-11-29T10:00:00Z"), RetiredFile::Reason::kForeign, ""}};
  manifest.extra_json = R"({"note":"x"})";
  return manifest;
}

constexpr std::string_view kFullText =
    R"({"generation":7,"files":["a.parquet","b.parquet"],"lithify":{"version":1,"job_id":"job-1",)"
    R"("retired":[{"file":"c.parquet","at":"2026-11-29T08:00:00.000001Z","reason":"superseded",)"
    R"("job_id":"job-1"},{"file":"d.parquet","at":"2026-11-29T09:00:00.000000Z",)"
    R"("reason":"fenced","job_id":"job-0"},{"file":"e.parquet","at":"2026-11-29T10:00:00.000000Z",)"
    R"("reason":"foreign","job_id":""}]},"note":"x"})";

TEST(HiveManifestText, R214IsWrittenAndReadExactly) {
  EXPECT_EQ(SerializeManifest(Full()).value(), kFullText);
  EXPECT_EQ(ParseManifest(kFullText).value(), Full());
}

TEST(HiveManifestText, R214ReadsThePlainContract) {
  const HiveManifest manifest =
      ParseManifest(R"({ "files" : ["x.parquet"], "generation" : 18446744073709551615 })").value();
  EXPECT_EQ(manifest.generation, 18446744073709551615ULL);
  EXPECT_EQ(manifest.files, std::vector<std::string>{"x.parquet"});
  EXPECT_FALSE(manifest.has_lineage);
  EXPECT_EQ(manifest.extra_json, "{}");
  EXPECT_EQ(SerializeManifest(manifest).value(),
            R"({"generation":18446744073709551615,"files":["x.parquet"]})");
}

TEST(HiveManifestText, Q7EmptyFileListIsLegal) {
  EXPECT_TRUE(ParseManifest(R"({"generation":1,"files":[]})").value().files.empty());
}

TEST(HiveManifestText, R218KeepsUnknownMembersToTheDigit) {
  const std::string extra =
      R"({"z":123456789012345678901234567890,"a":1.10,"n":null,"o":{"b":[true,false,[],{}],)"
      R"("\u0001":"\"\\"},"e":-5E-7,"neg":-3})";
  const std::string text = R"({"generation":1,"files":[],)" + extra.substr(1);
  const HiveManifest manifest = ParseManifest(text).value();
  EXPECT_EQ(manifest.extra_json, extra);
  EXPECT_EQ(SerializeManifest(manifest).value(), text);
}

struct Bad {
  std::string text;
  std::string message;
  Code code = Code::kCorrupt;
};

std::string WithFiles(const std::string& files) {
  return R"({"generation":1,"files":)" + files + "}";
}
std::string WithGeneration(const std::string& generation) {
  return R"({"files":[],"generation":)" + generation + "}";
}
std::string WithLineage(const std::string& lineage) {
  return R"({"generation":1,"files":["l.parquet"],"lithify":)" + lineage + "}";
}
std::string WithRetired(const std::string& retired) {
  return WithLineage(R"({"version":1,"job_id":"j","retired":[)" + retired + "]}");
}

void ExpectRefused(const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) {
    const auto parsed = ParseManifest(bad.text);
    ASSERT_FALSE(parsed) << bad.text.substr(0, 200);
    EXPECT_EQ(CodeName(parsed.error().code), CodeName(bad.code)) << bad.text.substr(0, 200);
    EXPECT_THAT(parsed.error().message, HasSubstr(bad.message)) << bad.text.substr(0, 200);
    EXPECT_LT(parsed.error().message.size(), 1000u);
  }
}

TEST(HiveManifestHostile, R217R308NotJson) {
  ExpectRefused({{"", "not JSON"},
                 {"{", "not JSON"},
                 {"null", "not a JSON object"},
                 {"[]", "not a JSON object"},
                 {"7", "not a JSON object"},
                 {"\"x\"", "not a JSON object"},
                 {WithFiles("[]") + "x", "not JSON"},
                 {WithFiles("[]") + WithFiles("[]"), "not JSON"},
                 {"\xEF\xBB\xBF" + WithFiles("[]"), "byte order mark"},
                 {WithFiles("[]") + "\0"s, "NUL"},
                 {WithFiles("[]") + "\0garbage"s, "NUL"},
                 {WithFiles("[/* */]"), "not JSON"},
                 {WithFiles("[],"), "not JSON"},
                 {R"({'generation':1})", "not JSON"},
                 {WithFiles("[\"a\xff.parquet\"]"), "not JSON"},
                 {R"({"generation":1,"files":[],"x":1e999})", "not JSON"},
                 {R"({"generation":1,"files":[],"x":NaN})", "not JSON"}});
}

TEST(HiveManifestHostile, DuplicateKeys) {
  ExpectRefused(
      {{R"({"generation":1,"files":[],"generation":2})", "key \"generation\" occurs twice"},
       {R"({"generation":1,"files":["a.parquet"],"files":[]})", "key \"files\" occurs twice"},
       {R"({"generation":1,"files":[],"fi\u006ces":[]})", "key \"files\" occurs twice"},
       {R"({"generation":1,"files":[],"x":{"a":1,"a":2}})", "key \"a\" occurs twice"},
       {WithLineage(R"({"version":1,"version":2,"job_id":"","retired":[]})"), "occurs twice"}});
}

TEST(HiveManifestHostile, GenerationIsAPositive64BitInteger) {
  std::vector<Bad> cases;
  for (const char* value : {"0", "-1", "-0", "1.0", "1e3", "18446744073709551616", "\"1\"", "null",
                            "true", "[1]", "{}"}) {
    cases.push_back({WithGeneration(value), "generation is not an integer from 1 to 2^64-1"});
  }
  cases.push_back({R"({"files":[]})", "there is no \"generation\""});
  ExpectRefused(cases);
}

TEST(HiveManifestHostile, R214NamesOutsideThePartition) {
  std::vector<Bad> cases;
  for (const char* name :
       {"../a.parquet", "x/a.parquet", "/etc/a.parquet", "..\\\\a.parquet", "a\\u0000.parquet",
        "a\\n.parquet", ".a.parquet", "_a.parquet", ".parquet", "", "a", "a.parquet.tmp",
        "a.PARQUET", "manifest.json", "%2e%2e%2fa.parquet/"}) {
    cases.push_back({WithFiles(std::string("[\"ok.parquet\",\"") + name + "\"]"), "files[1] is"});
    cases.push_back({WithRetired(std::string(R"({"file":")") + name +
                                 R"(","at":"2026-11-29","reason":"fenced","job_id":""})"),
                     "lithify.retired[0].file is"});
  }
  cases.push_back({WithFiles("[\"" + std::string(1 << 20, 'x') + ".parquet\"]"),
                   "(1048584 bytes), which is not the bare name"});
  ExpectRefused(cases);
}

TEST(HiveManifestHostile, WrongTypes) {
  ExpectRefused({{R"({"generation":1})", "there is no \"files\""},
                 {WithFiles("null"), "files is not an array"},
                 {WithFiles("{}"), "files is not an array"},
                 {WithFiles("\"a.parquet\""), "files is not an array"},
                 {WithFiles("[1]"), "files[0] is not a string"},
                 {WithFiles("[null]"), "files[0] is not a string"},
                 {WithFiles("[[\"a.parquet\"]]"), "files[0] is not a string"}});
}

TEST(HiveManifestHostile, NamesHaveOneRole) {
  const std::string retired =
      R"({"file":"r.parquet","at":"2026-11-29","reason":"fenced","job_id":""})";
  ExpectRefused(
      {{WithFiles(R"(["a.parquet","b.parquet","a.parquet"])"), "files names \"a.parquet\" twice"},
       {WithRetired(retired + "," + retired), "lithify.retired names \"r.parquet\" twice"},
       {WithRetired(R"({"file":"l.parquet","at":"2026-11-29","reason":"fenced","job_id":""})"),
        "\"l.parquet\" is both live and retired"}});
}

TEST(HiveManifestHostile, LineageIsCheckedToo) {
  const auto item = [](const std::string& at, const std::string& reason) {
    return R"({"file":"r.parquet","at":)" + at + R"(,"reason":)" + reason + R"(,"job_id":"j"})";
  };
  ExpectRefused(
      {{WithLineage("null"), "lithify is not an object"},
       {WithLineage("[]"), "lithify is not an object"},
       {WithLineage("{}"), "lithify.version is not a positive integer"},
       {WithLineage(R"({"version":0})"), "lithify.version is not a positive integer"},
       {WithLineage(R"({"version":"1"})"), "lithify.version is not a positive integer"},
       {WithLineage(R"({"version":2,"moved":{}})"), "written by a newer lithify: version 2",
        Code::kUnsupported},
       {WithLineage(R"({"version":1,"job_id":"j","retired":[],"more":1})"),
        "unknown member \"lithify.more\"", Code::kUnsupported},
       {WithLineage(R"({"version":1,"retired":[]})"), "lithify.job_id is not a string"},
       {WithLineage(R"({"version":1,"job_id":1,"retired":[]})"), "lithify.job_id is not a string"},
       {WithLineage(R"({"version":1,"job_id":"j"})"), "lithify.retired is not an array"},
       {WithLineage(R"({"version":1,"job_id":"j","retired":{}})"),
        "lithify.retired is not an array"},
       {WithRetired("1"), "lithify.retired[0] is not an object"},
       {WithRetired("{}"), "there is no lithify.retired[0].file"},
       {WithRetired(item("\"yesterday\"", "\"fenced\"")), "at is \"yesterday\", not a time"},
       {WithRetired(item("\"2026-02-30\"", "\"fenced\"")), "not a time"},
       {WithRetired(item("7", "\"fenced\"")), "at is not a string"},
       {WithRetired(item("\"2026-11-29\"", "\"lost\"")), "reason is \"lost\""},
       {WithRetired(item("\"2026-11-29\"", "null")), "reason is not a string"},
       {WithRetired(
            R"({"file":"r.parquet","at":"2026-11-29","reason":"fenced","job_id":"j","x":1})"),
        "unknown member \"lithify.retired[0].x\"", Code::kUnsupported}});
}

TEST(HiveManifestHostile, DepthAndSizeAreBounded) {
  const std::string deep(100'000, '[');
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  ExpectRefused({{deep, "not a JSON object"},
                 {R"({"x":)" + deep, "nested deeper than 64 levels"},
                 {objects, "nested deeper than 64 levels"},
                 {WithFiles(deep), "nested deeper than 64 levels"}});
  std::string huge = "[0";
  for (int i = 0; i < (1 << 22); ++i) huge += ",0";
  ExpectRefused({{WithFiles(huge + "]"), "more than 4194304 values"}});
  // 62 levels below the top object's member are still fine.
  const std::string text =
      R"({"generation":1,"files":[],"x":)" + std::string(63, '[') + std::string(63, ']') + "}";
  EXPECT_EQ(SerializeManifest(ParseManifest(text).value()).value(), text);
}

TEST(HiveManifestText, ManyFiles) {
  HiveManifest manifest;
  manifest.generation = 1;
  for (int i = 0; i < 100'000; ++i) manifest.files.push_back(std::to_string(i) + ".parquet");
  EXPECT_EQ(ParseManifest(SerializeManifest(manifest).value()).value(), manifest);
}

TEST(HiveManifestText, R214ValidatesBeforeItWrites) {
  const auto refused = [](auto change) {
    HiveManifest manifest = Full();
    change(manifest);
    const auto text = SerializeManifest(manifest);
    ASSERT_FALSE(text) << *text;
    EXPECT_EQ(text.error().code, Code::kInternal);
    EXPECT_THAT(text.error().message, HasSubstr("refused to write"));
  };
  refused([](HiveManifest& m) { m.generation = 0; });
  refused([](HiveManifest& m) { m.files.push_back("../x.parquet"); });
  refused([](HiveManifest& m) { m.files.push_back("a.parquet"); });
  refused([](HiveManifest& m) { m.files.push_back("c.parquet"); });
  refused([](HiveManifest& m) { m.retired.push_back(m.retired[0]); });
  refused([](HiveManifest& m) { m.retired[0].at = Time(Duration(9'000'000'000'000'000'000)); });
  refused([](HiveManifest& m) { m.job_id = "\xff"; });
  refused([](HiveManifest& m) { m.has_lineage = false; });  // It would lose the retired files.
  refused([](HiveManifest& m) { m.extra_json = R"({"files":[]})"; });
  refused([](HiveManifest& m) { m.extra_json = R"({"lithify":{}})"; });
  refused([](HiveManifest& m) { m.extra_json = "[]"; });
  refused([](HiveManifest& m) { m.extra_json = ""; });
  refused([](HiveManifest& m) { m.extra_json = R"({"a":1}})"; });
}

// Seeded mutations of valid texts: every outcome is an error or a manifest that round-trips.
TEST(HiveManifestHostile, R217MutatedTextsNeverSlipThrough) {
  const std::vector<std::string> pieces = {"\"files\":[",
                                           "\"generation\":1,",
                                           "\"lithify\":{",
                                           "../",
                                           "\\u0000",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           ",",
                                           "\"",
                                           "1e9",
                                           "-",
                                           "\xEF\xBB\xBF",
                                           "\0"s,
                                           "\xff",
                                           "null",
                                           ".parquet",
                                           "\"x\":{},",
                                           "\\",
                                           " ",
                                           "\n",
                                           "0",
                                           "x"};
  const std::vector<std::string> seeds = {
      std::string(kFullText), R"({"generation":1,"files":[]})",
      R"({"generation":1,"files":["a.parquet"],"x":{"y":[1,2.5,"z",null]}})"};
  int accepted = 0;
  for (uint64_t seed = 0; seed < 30'000; ++seed) {
    SeededRandom random(seed);
    std::string text = seeds[random.Next() % seeds.size()];
    for (uint64_t left = 1 + random.Next() % 4; left > 0; --left) {
      const size_t at = random.Next() % (text.size() + 1);
      switch (random.Next() % 4) {
        case 0: text.insert(at, pieces[random.Next() % pieces.size()]); break;
        case 1: text.erase(at, random.Next() % 8); break;
        case 2: text.insert(at, text.substr(random.Next() % (text.size() + 1), 30)); break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(random.Next());
      }
    }
    const auto manifest = ParseManifest(text);
    if (!manifest) {
      ASSERT_FALSE(manifest.error().message.empty()) << "seed " << seed;
      continue;
    }
    ++accepted;
    for (const std::string& name : manifest->files) ASSERT_TRUE(IsLiveFileName(name)) << name;
    const auto written = SerializeManifest(*manifest);
    ASSERT_TRUE(written) << "seed " << seed << ": " << written.error().ToString();
    ASSERT_EQ(ParseManifest(*written).value(), *manifest) << "seed " << seed;
  }
  EXPECT_GT(accepted, 500);
}

TEST(HiveManifestStore, AbsentValidAndCorrupt) {
  SystemClock clock;
  storage::MemoryStore store(clock);
  EXPECT_FALSE(ReadManifest(store, "data/p=1/").value().has_value());
  ASSERT_TRUE(store.PutNew("data/p=1/manifest.json", kFullText));
  const auto snapshot = ReadManifest(store, "data/p=1/").value();
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(snapshot->manifest, Full());
  EXPECT_EQ(snapshot->version, store.Get("data/p=1/manifest.json", 1 << 20)->version);

  ASSERT_TRUE(store.PutNew("data/p=2/manifest.json", "{}"));
  const auto corrupt = ReadManifest(store, "data/p=2/");
  ASSERT_FALSE(corrupt);
  EXPECT_EQ(corrupt.error().code, Code::kCorrupt);
  EXPECT_EQ(corrupt.error().context, "data/p=2/manifest.json");
  EXPECT_EQ(corrupt.error().message, "there is no \"generation\"");
  EXPECT_FALSE(corrupt.error().hint.empty());
}

}  // namespace
}  // namespace lithify::table
