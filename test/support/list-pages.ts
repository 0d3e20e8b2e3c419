import type { TestApp } from './open-test-app.ts'
import type { ShownUser } from './user-scan.ts'

/** The targets of a Link header by their relation. */
export function linksOf(header: string | undefined): Record<string, string> {
  const links = [...(header ?? '').matchAll(/<([^>]*)>; rel="(\w+)"/g)]
  return Object.fromEntries(links.map(([, target, relation]) => [relation, target]))
}

/** The members of each page of a list, from this one on. Between the pages something may happen. */
export async function walk<T = ShownUser>(
  { http }: Pick<TestApp, 'http'>,
  first: string,
  between = async (_page: number) => {},
): Promise<T[][]> {
  const pages: T[][] = []
  for (let target: string | undefined = first; target !== undefined; ) {
    const answer: { body: T[]; headers: { link?: string } } = await http.get(target).expect(200)
    pages.push(answer.body)
    target = linksOf(answer.headers.link).next
    await between(pages.length)
  }
  return pages
}
