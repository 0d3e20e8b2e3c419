import { useEffect, useRef, useState } from 'preact/hooks'
import type { Actions } from './panel.tsx'
import type { UsersPart } from './use-stored-user.ts'
import { type Generated, UserEditor } from './user-editor.tsx'
import { UserList } from './user-list.tsx'
import { followChanges } from './users-service.ts'

/** The users: a list to search, and beside it one of them to correct, or a form for a new one. */
export function Users({ isLocked, ...given }: Omit<UsersPart, 'news'> & { isLocked: boolean }) {
  const { item, actions } = given
  const part = { ...given, news: useNews(actions, isLocked) }
  const [generated, setGenerated] = useState<Generated>()
  /** The id of what gets the focus back when the item is closed. */
  const opener = useRef('')
  useEffect(() => {
    if (item === '' && opener.current !== '') {
      const target = document.getElementById(opener.current)
      ;(target ?? document.getElementById('user-search'))?.focus()
    }
    opener.current = item && `open-${item}`
    setGenerated(known => (known?.item === item ? known : undefined))
  }, [item])
  const onDeleted = () => {
    opener.current = 'user-search'
  }
  return (
    <main class="users">
      <UserList {...part} />
      {item === '' ? (
        <p class="panel faint">Open a user to correct, give a new password or delete.</p>
      ) : (
        <UserEditor key={item} {...part} {...{ generated, onDeleted }} onGenerate={setGenerated} />
      )}
    </main>
  )
}

/** Counts the times that users may have changed, while somebody sees the page and it is not locked. */
function useNews({ explain }: Actions, isLocked: boolean): number {
  const [news, setNews] = useState(0)
  useEffect(() => {
    let following = new AbortController()
    const onNews = (failure?: unknown) => {
      if (failure !== undefined) explain(failure)
      setNews(known => known + 1)
    }
    const follow = () => {
      following.abort()
      following = new AbortController()
      if (!document.hidden && !isLocked) void followChanges(following.signal, onNews)
    }
    follow()
    document.addEventListener('visibilitychange', follow)
    return () => {
      document.removeEventListener('visibilitychange', follow)
      following.abort()
    }
  }, [isLocked])
  return news
}
