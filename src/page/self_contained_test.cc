#include "page/self_contained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "page/assets.h"

namespace lithify::page {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t Count(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(AssetsTest, EachIsThereOnceAndAsItWasWritten) {
  std::set<std::string_view> paths;
  for (const Asset& asset : Assets()) {
    EXPECT_TRUE(paths.insert(asset.path).second) << asset.path;
    EXPECT_FALSE(asset.bytes.empty()) << asset.path;
    EXPECT_THAT(std::string(asset.content_type), HasSubstr("; charset=utf-8"));
  }
  EXPECT_TRUE(paths.contains("/"));
  EXPECT_TRUE(paths.contains("/page.js"));
  EXPECT_TRUE(paths.contains("/openapi.yaml"));
  EXPECT_TRUE(Assets().front().bytes.starts_with("<!doctype html>"));
  EXPECT_TRUE(Assets().front().bytes.ends_with("</html>\n"));
}

TEST(SelfContainedTest, NothingIsFetchedAndNothingOfTheDataIsMarkup) {
  SeededRandom random(1);
  const std::string page = SelfContained(
      R"({"kind": "tree", "name": "</script><script>alert(1)</script><!--"})", random);
  EXPECT_THAT(page, Not(HasSubstr("src=\"")));
  EXPECT_THAT(page, Not(HasSubstr("rel=\"stylesheet\"")));
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, HasSubstr(R"("\u003c/script>\u003cscript>alert(1)\u003c/script>\u003c!--")"));
  EXPECT_THAT(page, HasSubstr("<style nonce="));
  // All scripts and the data are within elements that end where they should.
  EXPECT_EQ(Count(page, "</script>"), Count(page, "<script "));
  EXPECT_EQ(Count(page, "<script "), Assets().size() - 3 + 1);  // Not the markup, styles and YAML.
}

TEST(SelfContainedTest, TheNumberThatLetsScriptsRunIsAnotherEachTime) {
  SeededRandom random(1);
  const std::string first = SelfContained("{}", random);
  const std::string second = SelfContained("{}", random);
  EXPECT_NE(first, second);
  EXPECT_THAT(first, HasSubstr("default-src 'none'; script-src 'nonce-"));
  EXPECT_THAT(first, Not(HasSubstr("unsafe-inline")));
}

}  // namespace
}  // namespace lithify::page
