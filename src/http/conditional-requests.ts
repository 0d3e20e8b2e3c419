/** Entity tags and the conditions on them: RFC 9110 8.8.3 and 13.1. */

interface EntityTag {
  readonly isWeak: boolean
  readonly opaque: string
}

/**
 * One member of a list of entity tags, with the comma after it. Only one part of the pattern can match a given blank:
 * when two parts could, 16 KB of blanks took 260 ms.
 */
const MEMBER = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y

/** The strong entity tag of a version. `version` must be printable ASCII without quotes. */
export function entityTag(version: string): string {
  return `"${version}"`
}

/**
 * The versions that If-Match accepts; `undefined` if it accepts any. It never accepts a weak tag.
 * A malformed header accepts none.
 */
export function parseIfMatch(ifMatch: string | undefined): readonly string[] | undefined {
  if (ifMatch === undefined || ifMatch.trim() === '*') return undefined
  return parseEntityTags(ifMatch)
    .filter(({ isWeak }) => !isWeak)
    .map(({ opaque }) => opaque)
}

/** Whether If-None-Match says that the client has this version. */
export function matchesIfNoneMatch(ifNoneMatch: string | undefined, version: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return parseEntityTags(ifNoneMatch).some(({ opaque }) => opaque === version)
}

function parseEntityTags(header: string): readonly EntityTag[] {
  const tags: EntityTag[] = []
  MEMBER.lastIndex = 0
  while (MEMBER.lastIndex < header.length) {
    const member = MEMBER.exec(header)
    if (member === null) return []
    const [, weak, opaque] = member
    if (opaque !== undefined) tags.push({ isWeak: weak !== undefined, opaque })
  }
  return tags
}
