// Formats Lua, or with --check names those that are not formatted.
//
//   node stylua.mjs [--check] PATH...      a PATH is a folder (searched for *.lua) or a file
//
// Exit status: 0 all is well, 1 something is not formatted or cannot be parsed, 2 wrong use.

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const stylua = await import("@johnnymorganz/stylua").catch((error) => {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
  console.error("stylua is not installed yet: run `make lua-tools`");
  process.exit(2);
});

// formatCode takes its configuration away for good, so each file gets a new one.
function configuration() {
  return Object.assign(stylua.Config.new(), {
    syntax: stylua.LuaVersion.Lua51,
    column_width: 100,
    indent_type: stylua.IndentType.Spaces,
    indent_width: 2,
    line_endings: stylua.LineEndings.Unix,
    quote_style: stylua.QuoteStyle.AutoPreferDouble,
    call_parentheses: stylua.CallParenType.Always,
  });
}

function luaFiles(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { recursive: true })
    .filter((name) => name.endsWith(".lua"))
    .sort()
    .map((name) => join(path, name));
}

function format(text) {
  return stylua.formatCode(text, configuration(), undefined, stylua.OutputVerification.Full);
}

function main(args) {
  const check = args.includes("--check");
  const paths = args.filter((arg) => arg !== "--check");
  if (paths.length === 0 || paths.some((path) => path.startsWith("-"))) {
    console.error("usage: node stylua.mjs [--check] PATH...");
    return 2;
  }
  const files = paths.flatMap(luaFiles);
  let changed = 0;
  let broken = 0;
  for (const file of files) {
    const before = readFileSync(file, "utf8");
    let after;
    try {
      after = format(before);
    } catch (error) {
      console.error(`${file}: ${error.message ?? error}`);
      broken += 1;
      continue;
    }
    if (after === before) continue;
    changed += 1;
    console.log(check ? `not formatted: ${file}` : `formatted: ${file}`);
    if (!check) writeFileSync(file, after);
  }
  console.log(`stylua: ${files.length} files, ${changed} ${check ? "to format" : "formatted"}, ${broken} broken`);
  return broken > 0 || (check && changed > 0) ? 1 : 0;
}

process.exitCode = main(process.argv.slice(2));
