import { z } from 'zod'

/** A text to read: a beginning, what is repeated, and an end at which a match must fail. */
export type Attack = readonly [start: string, repeated: string, end?: string]

/** Repeated to any expression, because its quantifiers may take them. */
export const ANY: readonly Attack[] = [...' \ta0-."\'/\\%=,;:@[\n\x85é$'].map(char => [
  '',
  char,
  '\n!',
])

const AFTER_NUMBER: readonly Attack[] = [
  ['1', ' '],
  ['1 ', 'a', '!'],
  ['', '9', '!'],
]
const SCHEME: readonly Attack[] = [
  ['a', 'a:'],
  ['', '://'],
  ['http://', 'x@', '/\n'],
  ['http://', 'x', '?\n'],
]

/** Beyond ANY, what each expression of `src` might stumble over. */
export const ATTACKS: Readonly<Record<string, readonly Attack[]>> = {
  '/^(?!-)[\\w-]+(\\.[\\w-]+)*$/': [
    ['', 'a.', '!'],
    ['a', '.a-', '.'],
  ],
  '/\\.(?:json|m?js)$/': [
    ['', '.mjs', 'x'],
    ['', '.json', '.'],
  ],
  '/\\b(?=\\w*(?:pass|pwd|secret|token|key))(\\w+)=[^&\\s]*/gi': [
    ['', 'key'],
    ['', 'key='],
    ['', 'key-'],
    ['', 'pas'],
  ],
  '/^(0|[1-9]\\d{0,8})$/': [],
  '/^(\\d{1,15}) *([a-z]*)$/i': AFTER_NUMBER,
  '/^[a-z][a-z0-9+.-]*:\\/\\//i': SCHEME,
  '/^file:/i': [['', 'file:']],
  '/^\\/(?:livez|readyz)(?:$|\\?)/': [['/livez', '?']],
  '/^(SQLITE_READONLY|SQLITE_CANTOPEN|EACCES$|EPERM$|EROFS$)/': [['EROFS', 'EROFS']],
  '/^SQLITE_(CORRUPT|NOTADB)/': [['SQLITE_', 'SQLITE_']],
  '/^\\d+$/': [],
  '/^\\d{1,3}$/': [],
  '/^https?:\\/\\/[^*]+$/': [['https://', 'x', '*']],
  '/^(\\d{1,12}) *([a-z]*)$/i': AFTER_NUMBER,
  '/s$/': [['', 's', 'x']],
  '/^(127\\.|::1$|::ffff:127\\.)/': [],
  '/[A-Za-z]+/g': [['', 'a', '1']],
  '/[^A-Za-z]/g': [],
  '/[ \\t]*(?:(W\\/)?"([\\x21\\x23-\\x7e\\x80-\\xff]*)"[ \\t]*)?(?:,|$)/y': [
    ['"a"', ' ', 'x'],
    [' W/"a"', ' \t', '"'],
    ['', '"a" ,', 'x'],
    ['W/"', 'a', '\n'],
  ],
  '/\\{(\\w+)\\}/g': [
    ['', '{'],
    ['{', 'a', '!'],
    ['', '{a'],
  ],
  "/%(?![0-9A-Fa-f]{2})|[^\\w.~!$&'()*+,;=:@%/-]/g": [
    ['', '%2'],
    ['', '%'],
  ],
  "/^(?:\\[[\\da-f:.]+\\]|[\\w.~!$&'()*+,;=%-]*)(?::\\d*)?$/i": [
    ['[', ':', '!'],
    ['[', 'a', ']!'],
    ['a:', '1', '!'],
  ],
  '/^(?:[a-z0-9][\\w.-]*|\\[[0-9a-f:.]+\\])(?::\\d{1,5})?$/i': [
    ['a', '.-', '!'],
    ['[', ':', '!'],
    ['[', 'a', ']!'],
    ['a:', '1', '!'],
  ],
  '/^[\\x21\\x23-\\x7e][\\x21-\\x7e]{0,254}$/': [],
  '/^"((?:[\\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\["\\\\])+)"$/': [
    ['"', 'a', '"x'],
    ['"', '\\\\', '\n'],
    ['"', '\\"', 'x'],
    ['"', 'a\\"'],
  ],
  '/\\\\(["\\\\])/g': [],
  '/[\\x80-\\x9f]/g': [],
  '/^(?:0(?:\\.\\d{0,3})?|1(?:\\.0{0,3})?)$/': [
    ['0.', '0'],
    ['1.', '0'],
  ],
  '/^("?)utf-8\\1$/i': [
    ['"utf-8', '"'],
    ['', 'utf-8'],
  ],
  '/^[\\w.-]{1,128}$/': [],
  '/^[\\w.:/@%+*-]+$/': [['', 'a', ' ']],
  '/^[^:]*:\\d+$/': [
    ['', ':'],
    ['a:', '1', 'x'],
  ],
  '/^\\/[\\x21-\\x7e]*$/': [['', '/', ' ']],
  '/^\\d{1,6}$/': [],
  '/\\p{Cc}/gu': [['', '\n']],
  '/^[a-z][a-z0-9+.-]*:\\/\\/(?:[^/?#]*@)?([^/?#]*)/i': SCHEME,
  '/[^\\x20-\\x7e]/gu': [],
  '/["\\\\]/g': [],
  '/^\\ufeff/': [['', '\ufeff']],
  '/\\s+/g': [['', ' \n\t']],
  '/[gy]/g': [['', 'gy']],
  '/%.*/s': [['', '%\n']],
  '/\\/{2,}/g': [
    ['', '//a'],
    ['', '/', '\n'],
  ],
  '/\\.$/': [['', '.', 'x']],
  '/^[imsu]*$/': [['', 'imsu', 'x']],
  '/^(?:ip|domain|host|path|(?:header|query):.+)$/': [
    ['header:', 'a', '\n'],
    ['', 'header:', '\n'],
  ],
  '/^body:[^.]+(?:\\.[^.]+)*$/': [
    ['body:', 'a.', '.'],
    ['body:a', '.a', '..'],
    ['body:', 'a', '..'],
  ],
  '/[\\p{Cc}\\u2028\\u2029]/gu': [['', '\u2028']],
  '/^must be/': [],
  '/^[\\t\\x20-\\x7e\\x80-\\xff]*$/': [['', 'a', '\x7f']],
  "/^(?!(?:connection|keep-alive|trailer|transfer-encoding|upgrade|x-request-id)$)[\\w!#$%&'*+.^`|~-]+$/i":
    [
      ['connection', 'a', ' '],
      ['', 'upgrade', ' '],
    ],
  '/^[\\x21-\\x7e]+$/': [['', 'a', ' ']],
  '/^(\\d{4})_[a-z0-9_]+\\.sql$/': [
    ['0001_', 'a_', '.'],
    ['0001_', '.sql', 'x'],
  ],
  '/^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|NOMEM|PROTOCOL)/': [['', 'SQLITE_']],
  '/^[1-9]\\d{0,11}$/': [],
  '/^(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d)(:\\d\\d)?(?:[.,](\\d+))?(?:Z|([+ -]\\d\\d):?(\\d\\d)?)$/':
    [
      ['2026-01-31T12:00:00.', '0', '!'],
      ['2026-01-31T12:00,', '1', '+0'],
    ],
  '/\\.\\d{3}\\d*[1-9]/': [
    ['.', '0', '!'],
    ['', '.000'],
    ['', '.0000'],
  ],
  '/^\\$argon2(?:id|i|d)\\$(?:v=(?:16|19)\\$)?m=(\\d{1,7}),t=(\\d{1,3}),p=(\\d{1,3})\\$[A-Za-z\\d+/]{11,86}\\$[A-Za-z\\d+/]{16,172}$/':
    [
      ['$argon2id$v=19$m=1,t=1,p=1$', 'A', '!'],
      ['$argon2id$m=1,t=1,p=1$AAAAAAAAAAA$', '+', '$'],
      ['$argon2id$', 'v=19$'],
    ],
  '/^\\$2[aby]\\$(\\d\\d)\\$[./\\dA-Za-z]{53}$/': [['$2b$10$', '.', '!']],
  '/^\\$bcrypt\\$v=98\\$r=(\\d{1,2})\\$([\\dA-Za-z+/]{22})\\$([\\dA-Za-z+/]{31})$/': [
    ['$bcrypt$v=98$r=10$', 'A', '!'],
  ],
  '/^\\$scrypt\\$ln=(\\d{1,2}),r=(\\d{1,2}),p=(\\d{1,2})\\$([A-Za-z\\d+/]{11,86})\\$([A-Za-z\\d+/]{22,172})$/':
    [
      ['$scrypt$ln=1,r=1,p=1$', 'A', '!'],
      ['$scrypt$ln=1,r=1,p=1$AAAAAAAAAAA$', '/', '$'],
    ],
  '/(\\.\\d{3})\\d+/': [
    ['', '.000'],
    ['.', '0', '!'],
  ],
  '/^[1-9]\\d{0,15}$/': [],
  '/\\p{Cc}/u': [],
  '/[\\u202a-\\u202e\\u2066-\\u2069]/': [],
}

export const MEDIA_TYPE: readonly Attack[] = [
  ['a/b;', ' ', 'x'],
  ['a/b', ' ', 'x'],
  ['a/b', ';', 'x'],
  ['a/b', '; \t', 'x'],
  ['a/b', ';a=b ', 'x'],
  ['a/b', ';a="b" ', '"'],
  ['a/b;a="', '\\"', 'x'],
  ['a/b;a="', '\\\\'],
  ['', 'a/b,', '/'],
  ['a/', 'b', '/'],
  ['', ';a'],
  ['', ';a="'],
  ['', 'a=b'],
]

/** What the service uses of zod, by the name in its source. */
export const OF_ZOD: Readonly<
  Record<string, readonly [expression: RegExp, attacks: readonly Attack[]]>
> = {
  'z.regexes.email': [
    z.regexes.email,
    [
      ['', 'a.', '!'],
      ['', 'a', '@'],
      ['', "a'", '@'],
      ['a@', 'a.', '!'],
      ['a@', 'a-', '.'],
      ['a@', 'a.', '1'],
      ['a@a', '-', '.'],
      ['a@a.', 'a', '1'],
      ['', 'a@'],
      ['', 'a.a@', '.'],
    ],
  ],
  'z.iso.datetime': [
    z.iso.datetime({ offset: true })._zod.def.pattern as RegExp,
    [
      ['2026-01-31T12:00:00.', '0', '!'],
      ['2026-01-31T12:00:00.', '1', '+01'],
      ['', '2024-02-29'],
      ['', '2026-'],
    ],
  ],
}
