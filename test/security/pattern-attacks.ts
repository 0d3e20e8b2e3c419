import { z } from 'zod'
import { parseMediaTypes } from '../../src/http/media-types.ts'

/**
 * A text to match, in three parts between bars: a beginning, a part that is repeated, and an end at which a match must fail, which
 * may be left out.
 */
export type Attack = string

/** Repeated for every expression, because its quantifiers may match them. */
export const ANY: readonly Attack[] = [...' \ta0-."\'/\\%=,;:@[\n\x85é$'].map(
  char => `|${char}|\n!`,
)

/** The expressions of `src` with a repetition that has no end, and the texts besides ANY that could be slow for each. */
export const ATTACKS: Readonly<Record<string, readonly Attack[]>> = {
  '/^(?!-)[\\w-]+(\\.[\\w-]+)*$/': ['|a.|!', 'a|.a-|.'],
  '/^[!-~]{16,1000}$/': ['|!~| '],
  '/[-:]|\\.\\d+/g': ['.|9|!'],
  '/^\\d*$/': ['|9|x'],
  '/^[^\\s@:/?#[\\]]+$/': ['|a| '],
  '/,? with args beginning with:.*/s': ['|, with args beginning with|!', '|,'],
  '/^(?:\\[([^\\]]*)\\]|([^:[\\]]+))(?::(\\d{1,5}))?$/': ['[|:|x', 'a|:1|:', '[|[|]'],
  '/^[\\w.:/-]{1,100}$/': ['a|.:/-|*'],
  '/^(?:\\[([^\\]]*)\\]|([^:[\\]]*))(?::([^:]*))?$/': ['|:', '[|[|:', '|[]', '[|a]|:', 'a:|1|:'],
  '/^(\\d{1,15}) *([a-z]*)$/i': ['1| ', '1 |a|!', '|9|!'],
  '/^[a-z][a-z0-9+.-]*:\\/\\//i': ['a|a:', '|://', 'http://|x@|/\n', 'http://|x|?\n'],
  '/^(?!file:)[a-z][a-z0-9+.-]+:/i': ['a|a:', '|://', 'http://|x@|/\n', 'http://|x|?\n'],
  '/^file:[^?#]*[?#]/i': ['|file:', 'file:|a'],
  '/^(?:export\\s+)?([\\w.-]+)\\s*=/': ['export| |!', 'export |a|!', 'a| |!'],
  '/^\\s*(?:#|$)/': ['| |!'],
  '/^Max open files +(\\d+)/m': ['Max open files| |x', '|\nMax open files |x'],
  '/^\\d+\\s*$/': ['|9|x', '9| |x'],
  '/[-+.\\w]+/y': ['|a'],
  '/^\\d+$/': [],
  '/^https?:\\/\\/[^*]+$/': ['https://|x|*'],
  '/^(\\d{1,12}) *([a-z]*)$/i': ['1| ', '1 |a|!', '|9|!'],
  "/^[\\w!#$%&'*+.^`|~-]+$/": ['|a| '],
  '/[A-Za-z]+/g': ['|a|1'],
  '/[ \\t]*(?:(W\\/)?"([\\x21\\x23-\\x7e\\x80-\\xff]*)"[ \\t]*)?(?:,|$)/y': [
    '"a"| |x',
    ' W/"a"| \t|"',
    '|"a" ,|x',
    'W/"|a|\n',
  ],
  '/\\{(\\w+)\\}/g': ['|{', '{|a|!', '|{a'],
  "/^(?:\\[[\\da-f:.]+\\]|[\\w.~!$&'()*+,;=%-]*)(?::\\d*)?$/i": ['[|:|!', '[|a|]!', 'a:|1|!'],
  '/^[\\x21\\x23-\\x7e][\\x21-\\x7e]{0,254}$/': [],
  '/^"((?:[\\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\["\\\\])+)"$/': [
    '"|a|"x',
    '"|\\\\|\n',
    '"|\\"|x',
    '"|a\\"',
  ],
  '/^[\\w.-]{1,128}$/': [],
  '/^[\\w.:/@%+*-]+$/': ['|a| '],
  '/^[^:]*:\\d+$/': ['|:', 'a:|1|x'],
  '/^\\/[\\x21-\\x7e]*$/': ['|/| '],
  '/^[a-z][a-z0-9+.-]*:\\/\\/(?:[^/?#]*@)?([^/?#]*)/i': [
    'a|a:',
    '|://',
    'http://|x@|/\n',
    'http://|x|?\n',
  ],
  '/\\s+/g': ['| \n\t'],
  '/%.*/s': ['|%\n'],
  '/\\/{2,}/g': ['|//a', '|/|\n'],
  '/^[imsu]*$/': ['|imsu|x'],
  '/^[\\t\\x20-\\x7e\\x80-\\xff]*$/': ['|a|'],
  "/^(?!(?:connection|keep-alive|trailer|transfer-encoding|upgrade|x-request-id)$)[\\w!#$%&'*+.^`|~-]+$/i":
    ['connection|a| ', '|upgrade| '],
  '/^[\\x21-\\x7e]+$/': ['|a| '],
  '/^(\\d{4})_[a-z0-9_]+\\.sql$/': ['0001_|a_|.', '0001_|.sql|x'],
  '/^(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d)(?:(:\\d\\d)(?:[.,](\\d+))?)?(?:Z|([+ -]\\d\\d):?(\\d\\d)?)$/':
    ['2026-01-31T12:00:00.|0|!', '2026-01-31T12:00:00,|1|+0'],
  '/^ *\\d+: \\w+:(\\w{4}) \\w+:(\\w{4}) \\w\\w (\\w{8}):/gm': [
    '| ',
    '|0',
    '0: |0',
    '0: 0:0000 |0',
    '|0: ',
  ],
  '/\\.\\d{3}\\d*[1-9]/': ['.|0|!', '|.000', '|.0000'],
  '/^\\$scrypt\\$ln=(?<logCost>\\d{1,2}),r=(?<blocks>\\d{1,2}),p=(?<lanes>\\d{1,2})\\$(?<salt>[A-Za-z\\d+/]{11,86})\\$(?<hash>[A-Za-z\\d+/]{22,172})$/':
    ['$scrypt$ln=1,r=1,p=1$|A|!', '$scrypt$ln=1,r=1,p=1$AAAAAAAAAAA$|/|$'],
  '/(\\.\\d{3})\\d+/': ['|.000', '.|0|!'],
  '/^[\\0-\\x7f]*$/': ['|a|'],
  '/[\\p{L}\\p{M}\\p{N}]+/gu': ['|é |!'],
  '/[0-9a-z]+/g': ['|a |!'],
}

/** What else matches texts with expressions: those that are built, and those of zod. */
export const MATCHERS: readonly (readonly [
  name: string,
  match: (text: string) => unknown,
  attacks: readonly Attack[],
])[] = [
  [
    'parseMediaTypes',
    parseMediaTypes,
    [
      'a/b;| |x',
      'a/b| |x',
      'a/b|;|x',
      'a/b|; \t|x',
      'a/b|;a=b |x',
      'a/b|;a="b" |"',
      'a/b;a="|\\"|x',
      'a/b;a="|\\\\',
      '|a/b,|/',
      'a/|b|/',
      '|;a',
      '|;a="',
      '|a=b',
    ],
  ],
  [
    'z.regexes.email',
    text => z.regexes.email.test(text),
    [
      '|a.|!',
      '|a|@',
      "|a'|@",
      'a@|a.|!',
      'a@|a-|.',
      'a@|a.|1',
      'a@a|-|.',
      'a@a.|a|1',
      '|a@',
      '|a.a@|.',
    ],
  ],
  [
    'z.iso.datetime',
    text => z.iso.datetime({ offset: true }).safeParse(text),
    ['2026-01-31T12:00:00.|0|!', '2026-01-31T12:00:00.|1|+01', '|2024-02-29', '|2026-'],
  ],
]
