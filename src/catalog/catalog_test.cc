#include "catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "catalog/metadata_file.h"
#include "catalog/namespace_tree.h"

namespace lithify::catalog {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TableIdent, R064PartsAndQuotes) {
  const auto parsed = [](std::string_view text) {
    const Result<TableIdent> ident = ParseTableIdent(text);
    EXPECT_TRUE(ident) << text;
    return ident ? *ident : TableIdent();
  };
  EXPECT_EQ(parsed("t"), (TableIdent{{"default"}, "t"}));
  EXPECT_EQ(parsed("ns.t"), (TableIdent{{"ns"}, "t"}));
  EXPECT_EQ(parsed("a.b.c.t"), (TableIdent{{"a", "b", "c"}, "t"}));
  EXPECT_EQ(parsed("`a.b`.\"t.1\""), (TableIdent{{"a.b"}, "t.1"}));
  EXPECT_EQ(parsed(R"("say ""hi""".t)"), (TableIdent{{"say \"hi\""}, "t"}));
  EXPECT_EQ(parsed("\xc3\xa9t\xc3\xa9.x y"), (TableIdent{{"\xc3\xa9t\xc3\xa9"}, "x y"}));
  for (const std::string_view wrong :
       {std::string_view(""), std::string_view("."), std::string_view(".t"), std::string_view("a."),
        std::string_view("a..t"), std::string_view("\"a"), std::string_view("\"\".t"),
        std::string_view("\"a\"b.t"), std::string_view("`a"), std::string_view("a.t\0", 4)}) {
    const Result<TableIdent> ident = ParseTableIdent(wrong);
    ASSERT_FALSE(ident) << wrong;
    EXPECT_EQ(ident.error().code, Code::kInvalid);
  }
}

TEST(TableIdent, ItsTextIsParsedToTheSame) {
  for (const TableIdent& ident : {TableIdent{{"sales", "eu"}, "orders"}, TableIdent{{"a.b"}, "t`1"},
                                  TableIdent{{"say \"hi\""}, "."}, TableIdent{{"default"}, "x"}}) {
    const Result<TableIdent> again = ParseTableIdent(ident.ToString());
    ASSERT_TRUE(again) << ident.ToString();
    EXPECT_EQ(*again, ident);
  }
  EXPECT_EQ((TableIdent{{"sales", "eu"}, "orders"}).ToString(), "sales.eu.orders");
}

TEST(NamespaceTree, ChildrenAtAnyDepth) {
  const std::set<NamespacePath> all = {{"a", "b", "c"}, {"a", "d"}, {"a-b"}, {"z"}};
  EXPECT_THAT(*ChildNamespaces(all, {}),
              ElementsAre(NamespacePath{"a"}, NamespacePath{"a-b"}, NamespacePath{"z"}));
  EXPECT_THAT(*ChildNamespaces(all, {"a"}),
              ElementsAre(NamespacePath{"a", "b"}, NamespacePath{"a", "d"}));
  EXPECT_THAT(*ChildNamespaces(all, {"a", "b", "c"}), IsEmpty());
  EXPECT_EQ(ChildNamespaces(all, {"b"}).error().code, Code::kNotFound);
  EXPECT_TRUE(NamespaceExists(all, {"a", "b"}));
  EXPECT_FALSE(NamespaceExists(all, {"a", "c"}));
}

TEST(NextMetadataLocation, CountsOnAndObeysTheProperty) {
  iceberg::TableMetadata metadata;
  metadata.location = "s3://b/t";
  const auto next = [&metadata](std::string_view current) {
    return NextMetadataLocation(metadata, current, "u");
  };
  EXPECT_EQ(next("s3://b/t/metadata/00041-x-y.metadata.json"),
            "s3://b/t/metadata/00042-u.metadata.json");
  EXPECT_EQ(next("s3://b/t/metadata/99999-x.metadata.json"),
            "s3://b/t/metadata/100000-u.metadata.json");
  EXPECT_EQ(next("s3://b/t/metadata/other.metadata.json"),
            "s3://b/t/metadata/00000-u.metadata.json");
  EXPECT_EQ(next("s3://b/t/metadata/99999999999999999999-x.metadata.json"),
            "s3://b/t/metadata/00000-u.metadata.json");
  metadata.properties["write.metadata.path"] = "s3://b/meta/";
  EXPECT_EQ(next("s3://b/t/metadata/00000-x.metadata.json"), "s3://b/meta/00001-u.metadata.json");
}

}  // namespace
}  // namespace lithify::catalog
