/**
 * The one of `codings`, the best one first, that an Accept-Encoding header prefers: RFC 9110 12.5.3. `undefined` means no
 * coding, also for a header that allows nothing.
 */
export function preferredCoding(
  header: string | undefined,
  codings: readonly string[],
): string | undefined {
  const qualities = parseAcceptEncoding(header)
  const anyQuality = qualities.get('*') ?? 0
  const qualityOf = (coding: string) => qualities.get(coding) ?? anyQuality
  const floor = qualities.get('identity') ?? 0
  let best: string | undefined
  for (const coding of codings) {
    const quality = qualityOf(coding)
    if (quality > 0 && quality >= floor && (best === undefined || quality > qualityOf(best))) {
      best = coding
    }
  }
  return best
}

function parseAcceptEncoding(header = ''): ReadonlyMap<string, number> {
  const qualities = new Map<string, number>()
  for (const member of header.toLowerCase().split(',')) {
    const [coding = '', weight = 'q=1'] = member.split(';').map(part => part.trim())
    const quality = weight.startsWith('q=') ? Number(weight.slice(2)) : 0
    qualities.set(coding, quality <= 1 ? quality : 0)
  }
  return qualities
}
